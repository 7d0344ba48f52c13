"""Where things live and which model decides: environment first, then `config.toml` in the home folder.

SGLSCOUT_HOME     transcripts, configuration          default: the platform's state folder
SGLSCOUT_CACHE    source trees                        default: the platform's cache folder
SGLSCOUT_MODEL    model name at the endpoint
OPENAI_BASE_URL, OPENAI_API_KEY                       any OpenAI-compatible endpoint; neither set: the playbook
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from transcripts.errors import UsageError


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment and the configuration file say. `model` is empty when the playbook decides."""

    home: Path
    cache: Path
    model: str
    base_url: str
    api_key: str


def load_settings(model: str | None = None) -> Settings:
    """The settings in force; `model` from the command line goes above both. Raises UsageError on a bad file."""
    home = load_home()
    config = _config(home / "config.toml")
    base_url = os.environ.get("OPENAI_BASE_URL") or config.get("base_url", "")
    api_key = os.environ.get("OPENAI_API_KEY") or config.get("api_key", "")
    name = model or os.environ.get("SGLSCOUT_MODEL") or config.get("model", "")
    if name == "playbook" or not (base_url or api_key):
        if model and model != "playbook":
            raise UsageError(
                f"the model {model!r} needs an endpoint.",
                "Set OPENAI_BASE_URL or OPENAI_API_KEY, or use `--model playbook`.",
            )
        name = ""
    elif not name:
        raise UsageError("an endpoint is set, but no model.", "Set SGLSCOUT_MODEL, or pass --model NAME.")
    return Settings(home, _folder("SGLSCOUT_CACHE", "cache"), name, base_url, api_key)


def load_home() -> Path:
    """Where transcripts are kept, for commands that need no model."""
    return _folder("SGLSCOUT_HOME", "state")


def _folder(variable: str, kind: str) -> Path:
    given = os.environ.get(variable)
    if given:
        return Path(given).expanduser()
    import platformdirs

    folders = platformdirs.PlatformDirs("sglscout", appauthor=False)
    return Path(folders.user_state_dir if kind == "state" else folders.user_cache_dir)


def _config(path: Path) -> dict[str, str]:
    try:
        text = path.read_text()
    except OSError:
        return {}
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}.", "Mend it or remove it.") from error
    wrong = [
        key
        for key, value in values.items()
        if key not in ("model", "base_url", "api_key") or not isinstance(value, str)
    ]
    if wrong:
        raise UsageError(f"{path}: {wrong[0]!r} is no setting.", "Known: model, base_url, api_key, each a string.")
    return {key: str(value) for key, value in values.items()}
