"""The catalogue: what is known to read, one entry per command, and what is known to do worse.

One module per theme. An entry is data: options, operands, limits. Nothing here decides; `judge` does.
"""

from typing import Final

from tools.host.policy.catalogue import (
    containers,
    files,
    gpu,
    hardware,
    host,
    http,
    kernel,
    logs,
    network,
    processes,
    text,
)
from tools.host.policy.catalogue.http import READER_ONLY as HTTP_READER_ONLY
from tools.host.policy.catalogue.packages import ENTRIES as _PACKAGES
from tools.host.policy.catalogue.refused import changes, refused
from tools.host.policy.catalogue.wrappers import WRAPPERS, Wrapper
from tools.host.policy.options import Entry

ENTRIES: Final[dict[str, Entry]] = {
    **gpu.ENTRIES,
    **logs.ENTRIES,
    **kernel.ENTRIES,
    **host.ENTRIES,
    **processes.ENTRIES,
    **network.ENTRIES,
    **files.ENTRIES,
    **text.ENTRIES,
    **http.ENTRIES,
    **containers.ENTRIES,
    **hardware.ENTRIES,
    **_PACKAGES,
}

__all__ = ["ENTRIES", "HTTP_READER_ONLY", "WRAPPERS", "Wrapper", "changes", "refused"]
