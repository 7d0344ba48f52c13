"""Where things live and which model decides: environment first, then `config.toml` in the home folder.

SGLSCOUT_HOME     transcripts, configuration          default: the platform's state folder
SGLSCOUT_CACHE    source trees                        default: the platform's cache folder
SGLSCOUT_MODEL    model name at the endpoint, `playbook`, or `from-host`: the server under diagnosis
price_in, price_out, max_cost     per million tokens, and what a question may cost; in `config.toml` alone
OPENAI_BASE_URL, OPENAI_API_KEY                       any OpenAI-compatible endpoint; neither set: the playbook
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from transcripts.errors import UsageError
from transcripts.paths import at_home

if TYPE_CHECKING:
    from transcripts.parts import Limits

TEXTS: Final = ("model", "base_url", "api_key")
MONEY: Final = ("price_in", "price_out", "max_cost")
FROM_HOST: Final = "from-host"
PLAYBOOK: Final = "playbook"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment and the configuration file say. `model` is empty when the playbook decides."""

    home: Path
    cache: Path
    model: str
    base_url: str
    api_key: str
    price_in: float = 0.0
    price_out: float = 0.0
    max_cost: float | None = None

    def limited(self, limits: Limits) -> Limits:
        """These limits with the configured one in money, which binds a question and each of its research tasks."""
        priced = {"cost": self.max_cost, "price_in": self.price_in, "price_out": self.price_out}
        return limits.model_copy(update=priced) if self.max_cost is not None else limits


def load_settings(model: str | None = None) -> Settings:
    """The settings in force; `model` from the command line goes above both. Raises UsageError on a bad file."""
    home = load_home()
    config = _config(home / "config.toml")
    base_url = (os.environ.get("OPENAI_BASE_URL") or config.get("base_url", "")).strip()
    api_key = (os.environ.get("OPENAI_API_KEY") or config.get("api_key", "")).strip()
    name = model or os.environ.get("SGLSCOUT_MODEL") or config.get("model", "")
    if name == FROM_HOST:
        pass
    elif name == PLAYBOOK or not (base_url or api_key):
        if model and model != PLAYBOOK:
            raise UsageError(
                f"the model {model!r} needs an endpoint.",
                "Set OPENAI_BASE_URL or OPENAI_API_KEY, or use `--model playbook`.",
            )
        name = ""
    elif not name:
        raise UsageError("an endpoint is set, but no model.", "Set SGLSCOUT_MODEL, or pass --model NAME.")
    if name:
        _usable(base_url, api_key)
    cache = _folder("SGLSCOUT_CACHE", "cache")
    return Settings(home, cache, name, base_url, api_key, **_money(home / "config.toml", config))


def _usable(base_url: str, api_key: str) -> None:
    """Raises UsageError for an address or a key that no request can carry; the key is not shown."""
    try:
        where = urlsplit(base_url)
        whole = not base_url or (where.scheme in ("http", "https") and bool(where.hostname) and where.port != 0)
    except ValueError:
        whole = False
    if not whole or not base_url.isprintable() or " " in base_url:
        raise UsageError(f"OPENAI_BASE_URL is no address: {base_url!r}.", "Write it as http://HOST:PORT/v1.")
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise UsageError("OPENAI_API_KEY holds a character that no key has.", "Look at it for blanks, quotes, breaks.")


def load_home() -> Path:
    """Where transcripts are kept, for commands that need no model."""
    return _folder("SGLSCOUT_HOME", "state")


def _folder(variable: str, kind: str) -> Path:
    given = os.environ.get(variable)
    if given:
        folder = at_home(given)
        if str(folder).startswith("~"):
            raise UsageError(f"{variable}: there is no home folder {folder.parts[0]!r}.", "Give a whole path.")
        return folder
    import platformdirs

    folders = platformdirs.PlatformDirs("sglscout", appauthor=False)
    return Path(folders.user_state_dir if kind == "state" else folders.user_cache_dir)


def _config(path: Path) -> dict[str, str]:
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", "Mend it or remove it.") from error
    try:
        values = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:  # TOML, UTF-8, or a number past every measure
        raise UsageError(f"{path} is not valid TOML: {error}.", "Mend it or remove it.") from error
    wrong = [
        key
        for key, value in values.items()
        if not (key in TEXTS and isinstance(value, str))
        and not (key in MONEY and isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < inf)
    ]
    if wrong:
        known = f"{', '.join(TEXTS)}, each a string; {', '.join(MONEY)}, each a number of 0 or more"
        raise UsageError(f"{path}: {wrong[0]!r} is no setting, or its value is none.", f"Known: {known}.")
    return {key: str(value) for key, value in values.items()}


def _money(path: Path, config: dict[str, str]) -> dict[str, float]:
    """The limit in money and the prices it is counted by. Raises UsageError for a limit without a price."""
    money: dict[str, float] = {key: float(config[key]) for key in MONEY if key in config}
    if "max_cost" in money and not (money.get("price_in") or money.get("price_out")):
        raise UsageError(f"{path}: max_cost needs price_in and price_out.", "Give them per million tokens.")
    return money
