"""Recorded hosts: a folder of figures and files from which any command of the catalogue is computed, and a real SSH
server in front of it. A simulation only: nothing here starts a program, and the hosts' data stands in
`transcripts/recorded`, not here. Facts are read elsewhere, from what the host says, as with any host.
"""

from __future__ import annotations

from tools.host.recorded.errors import RecordingUnreadable
from tools.host.recorded.recording import Recording, load, names
from tools.host.recorded.server import Served, serve
from tools.host.recorded.shell import Reply

__all__ = ["Recording", "RecordingUnreadable", "Reply", "Served", "load", "names", "serve"]
