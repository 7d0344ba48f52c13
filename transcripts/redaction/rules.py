"""How secrets and prompts show themselves: by the name before them, by their own shape, by where they stand.

Every pattern consumes what it looked at or fails at once, so that hostile text costs no more than its length. A pattern
names its secret `v`; `label` names the kind when the pattern does not capture a `name`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from transcripts.redaction.shapes import LONG_RUN, SHAPES, VENDORS

_ANSI: Final = r"(?:\x1b\[[0-9;]*m)*"
_SECRET_NAME: Final = re.compile(
    r"(?:.*[^a-z])?(?:api[_-]?keys?|access[_-]?key(?:[_-]?id)?|secret[_-]?(?:access[_-]?)?keys?"
    r"|(?:admin|private|auth|signing"
    r"|master|account|encryption|storage|service|license|client|deploy"
    r"|webhook|shared|session|hmac|subscription|ssh|jwt|sas)"
    r"[_-]?key(?:[_-]?id)?|api[_-]?secrets?|secrets?|passwd|passw(?:or)?ds?|passphrase|passcode|pwd|token|credentials?|x-amz-(?:signature|credential"
    r"|security-token)|connection[_-]?string|webhook[_-]?url)"
    r"|.*(?:secret|password|passwd|passphrase|apikey|accesskey|secretkey|authtoken|accesstoken|connectionstring)"
    r"|.*[_-](?:pass|pat|auth)|auth"
)
_CORES: Final = (
    "key",
    "secret",
    "pass",
    "pwd",
    "token",
    "credential",
    "_pat",
    "auth",
    "x-amz-sig",
    "string",
    "webhook",
)
_BEFORE: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}\Z")
_AFTER: Final = re.compile(r"[A-Za-z0-9_-]{0,60}")
_QUOTED: Final = r"(?P<q>\\*[\"'])(?P<v>.*?)(?:(?<!\\)(?P=q)|$)"
_NOT_NAMES: Final = re.compile(
    r"(?i)(?:eos|bos|pad|unk|sep|cls|mask|stop|start|end|image|audio"
    r"|video|vision|think|special|added|new|max|num|per|first|next|last"
    r"|last|draft|cached|prompt|completion|total|output|input|prefill"
    r"|decode|accept(?:ed)?|verify|swa|full|mamba|hit|out|each)[_-]?tokens?$"
    r"|^#?[_-]?tokens$|tokens$|key[_-]?value"
)
_NOT_VALUES: Final = re.compile(
    r"(?i)(?:none|null|nil|true|false|yes|no|on|off|undefined|unset|empty|required|optional|disabled|enabled|redacted"
    r"|str|string|int|bool|optional\[str\]|\*+|x{3,}|<[^>]{0,40}>|\[[^\]]{0,20}\]"
    r"|\$\{?[A-Za-z_]\w*\}?|\$\([^)]*\)|%[a-z]|-+|\.\.\.|)[.;,]?"
)
_NUMBER: Final = re.compile(r"-?\d{1,9}(?:\.\d+)?%?")


@dataclass(frozen=True, slots=True)
class Found:
    """A piece of text to mask: from, to, its kind, and whether the value is worth knowing elsewhere too."""

    start: int
    end: int
    kind: str
    learn: bool


@dataclass(frozen=True, slots=True)
class Rule:
    pattern: re.Pattern[str]
    label: str
    needs: tuple[str, ...]


def _rule(needs: str, pattern: str, label: str = "") -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE | re.MULTILINE), label, tuple(needs.split("|")))


_PROMPT_NAMES: Final = frozenset(
    {
        "text", "texts", "prompt", "prompts", "content", "input_ids", "output_ids", "token_ids", "prompt_token_ids",
        "input_embeds", "output", "outputs", "output_text", "input_text", "origin_input_text", "origin_input_ids",
        "decoded_text", "reasoning_content", "jsonschema", "json_schema", "regex", "ebnf", "image_data",
        "video_data", "audio_data", "image_url", "input", "arguments", "structural_tag", "instructions",
        "system_prompt", "user_prompt", "query", "suffix", "messages", "completion", "response_text", "prompt_text",
        "refusal",
    }
)  # fmt: skip
_PROMPT_CORES: Final = (
    "text",
    "prompt",
    "content",
    "_ids",
    "embeds",
    "output",
    "schema",
    "regex",
    "ebnf",
    "_data",
    "image_url",
    "input",
    "arguments",
    "structural_tag",
    "instructions",
    "query",
    "suffix",
    "messages",
    "completion",
    "refusal",
)

_EQUALS: Final = rf"\\*[\"']?{_ANSI}[ \t]*(?:=>|:=|[:=])[ \t]*{_ANSI}"
_BETWEEN: Final = r"(?:=|[ \t]+|\0|\\0|[\"'],?\s*(?=[\"'])|[ \t]*\n[ \t]*-[ \t]+(?=[\"']))"

# What may follow a secret's name, tried in order from where the name ends.
_QUOTED_VALUE: Final = re.compile(rf"{_EQUALS}[bru]?(?:\"\"(?=\")|''(?='))?{_QUOTED}", re.MULTILINE)
_BLOCK_VALUE: Final = re.compile(r"[ \t]*:[ \t]*[|>][+-]?[ \t]*\n(?P<v>[ \t]+\S[^\n]*(?:\n[ \t]+\S[^\n]*)*)")
_BARE_VALUE: Final = re.compile(rf"{_EQUALS}(?P<v>[^\s,;&)}}\]\"'«|>\\\0][^\s,;&)}}\]\"'«\\\0]{{0,8000}})")
_FLAG_QUOTED: Final = re.compile(rf"{_BETWEEN}(?!-){_QUOTED}", re.MULTILINE)
# A line break ends a flag's name too: so the words of /proc/PID/cmdline come from a probe.
_FLAG_BARE: Final = re.compile(r"(?:=|[ \t]+|\n|\0|\\0)(?P<v>[^\s\0\"'«\\-][^\s\0\"'«\\]{0,8000})")
# One word a line: an argv as the kernel keeps it, or as a list of YAML.
_FLAG_BELOW: Final = re.compile(r"[ \t]*\r?\n[ \t]*(?:-[ \t]+)?(?P<v>[^\s\"'«-][^\s\"'«]*)[ \t]*(?=\r?\n|$)")
_CONTAINER: Final = re.compile(rf"{_EQUALS}(?P<v>[\[{{(])")
_ITEM: Final = re.compile(
    r"(?P<q>\\*[\"'])(?P<v>[^\n]*?)(?<!\\)(?P=q)(?P<key>\s*:)?|(?P<mark>[\[\]{}()])|(?P<bare>[^\s\[\]{}()\"',:]+)(?P<named>\s*:)?"
)
_LIST_BELOW: Final = re.compile(r"[ \t]*:[ \t]*\r?\n(?P<v>(?:[ \t]*-[ \t]+[^\n]*(?:\n|$))+)")
_ENTRY_BELOW: Final = re.compile(r"^[ \t]*-[ \t]+[\"']?(?P<v>[^\s\"':][^\s\"':]*)[\"']?[ \t]*$", re.MULTILINE)
_LONGEST_CONTAINER: Final = 16_384
_IN_QUOTES: Final = {
    quote: re.compile(rf"=(?P<v>(?:\\.|[^{quote}\\\n])*)(?:{quote}|$)", re.MULTILINE) for quote in ('"', "'")
}
_PROMPT_VALUES: Final = (
    re.compile(rf"{_EQUALS}[bru]?{_QUOTED}", re.MULTILINE),
    re.compile(rf"{_EQUALS}(?P<v>\[[ \t]*[\"'](?:'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|[^\[\]'\"\n])*\]?)"),
    re.compile(rf"{_EQUALS}(?P<v>\[[\d\s,\[\]\-.…]*\]?)"),
)

# Where no name stands before the value, or the name is not enough. `needs`: one of these words (lower case) is there.
RULES: Final = (
    # headers
    _rule(
        "authorization",
        r"(?P<name>authorization)\\*[\"']?[ \t]*[:=][ \t]*(?:\\*[\"'])?(?:(?:bearer"
        r"|basic|token|digest|apikey|negotiate|aws4-hmac-sha256)[ \t]+)?(?!(?:bearer"
        r"|basic|token|digest|apikey|negotiate)[ \t])(?P<v>[^\s\"'«\\][^\"'«\n\\]"
        r"*)",
    ),
    _rule("bearer|basic", r"\b(?:bearer|basic)[ \t]+(?P<v>[A-Za-z0-9._~+/=:-]{8,})", "authorization"),
    _rule("cookie", r"(?<![A-Za-z-])cookie\\*[\"']?[ \t]*:[ \t]*(?:\\*[\"'])?(?P<v>[^\s\"'«\\][^\"'\n«\\]*)", "cookie"),
    _rule("set-cookie", r"set-cookie\\*[\"']?[ \t]*:[ \t]*(?:\\*[\"'])?[^\s=;«]{1,80}=(?P<v>[^\s;\"'«]+)", "cookie"),
    # URLs: user and password, keys in the query, webhooks
    _rule(
        "://", r"(?<![A-Za-z0-9])[a-z][a-z0-9+.-]{1,20}://[^\s/:@'\"«]{0,80}:(?P<v>[^\s/'\"«]{1,200})@", "url_password"
    ),
    _rule("://", r"(?<![A-Za-z0-9])https?://(?P<v>[A-Za-z0-9_-]{20,})@", "url_token"),
    _rule(
        "webhook|hooks.slack|api.telegram",
        r"(?P<v>(?<=discord\.com/api/webhooks/)[^\s\"'«]+|(?<=discordapp\.com/api/webhooks/)[^\s\"'«]"
        r"+|(?<=hooks\.slack\.com/services/)[^\s\"'«]+|(?<=api\.telegram\.org/bot)[^\s/\"'«]+"
        r"|(?<=webhook\.office\.com/)[^\s\"'«]+)",
        "webhook",
    ),
    _rule(
        "?|&",
        r"(?<=[?&])(?:sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token"
        r"|x-goog-signature|x-goog-credential|auth|key|code|access_token)=(?P<v>[^&\s\"'«]+)",
        "url_signature",
    ),
    # commands that take a password
    _rule(
        "curl",
        r"\bcurl\b[^\n]{0,300}?[ \t](?:-u|--user|--proxy-user|-U)[ \t=]*[\"']?[^\s:\"'«]{0,80}:(?P<v>[^\s\"'«]+)",
        "password",
    ),
    _rule("-u|--user", r"(?<![\w-])(?:-u|--user)[ \t=]+[\"']?[A-Za-z0-9_.@-]{1,60}:(?P<v>[^\s\"'«/:]{4,})", "password"),
    _rule("sshpass", r"\bsshpass[ \t]+-p[ \t]*[\"']?(?P<v>[^\s\"'«]+)", "password"),
    _rule(
        "mysql|mariadb",
        r"\b(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)\b[^\n]{0,200}?[ \t]-p(?P<v>[^\s\"'«]+)",
        "password",
    ),
    _rule(
        "redis-cli|login|mongo|ldapsearch|smbclient",
        r"\b(?:redis-cli\b[^\n]{0,200}?[ \t]-a|(?:docker|podman|helm)[ \t]+(?:registry[ \t]+)?login"
        r"\b[^\n]{0,200}?[ \t]-p|mongo(?:sh)?\b[^\n]{0,200}?[ \t]-p|ldapsearch\b[^\n]{0,200}?[ \t]-"
        r"w|smbclient\b[^\n]{0,200}?%)[ \t]*[\"']?(?P<v>[^\s\"'«]+)",
        "password",
    ),
    _rule(
        "passwd",
        r"\becho[ \t]+[\"']?(?P<v>[^\s\"'«|]+)[\"']?[ \t]*\|[ \t]*(?:sudo[ \t]+)?(?:chpasswd|passwd)\b",
        "password",
    ),
    _rule("htpasswd", r"\bhtpasswd[ \t]+-\w*b\w*[ \t]+\S+[ \t]+\S+[ \t]+(?P<v>[^\s\"'«]+)", "password"),
    _rule("pass", r"-pass(?:in|out)?[ \t]+[\"']?pass:(?P<v>[^\s\"'«]+)", "password"),
    # a name and its value as two fields, as elements or as attributes
    _rule(
        "value",
        r"(?:name|key)\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?(?P<name>[A-Za-z0-9_.-]*"
        r"(?:key|token|secret|pass|pwd|passwd|password|credential|auth)s?(?:_id)?)\\*[\"']?[,\s]\s*\\*[\"']?value"
        r"\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?(?P<v>[^\s\"'«,}\\]+)",
    ),
    _rule(
        "</",
        r"<(?P<name>[\w:.-]{0,40}(?:key|token|secret|passwd|password|pwd|credential))>(?P<v>[^<\n«]{1,2000})</",
    ),
    # AWS prints the secret behind the id
    _rule(
        "akia|asia",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{12,16}[\"']?[\s:,;|/]{1,4}[\"']?(?P<v>[A-Za-z0-9/+=]{40})(?![A-Za-z0-9/+=])",
        "aws_secret",
    ),
    _rule(
        "secret access key|secret key|access key|api key|private key",
        r"\b(?P<name>(?:secret access|secret|access|api|private) key)[ \t]*[:=][ \t]*[\"']?(?P<v>[^\s\"'«,;]{6,})",
    ),
    # prompts, and what people write
    _rule(
        "password|passphrase|passcode",
        r"\b(?:password|passphrase|passcode)[ \t]+(?:for|of)[ \t]+(?:[a-z ]{0,20}'[^'\n]*'|\"[^\"\n]*\"|[^:\n]{1,60})"
        r":[ \t]*(?P<v>[^\s«]{4,})",
        "password",
    ),
    _rule(
        "password|passphrase|passcode",
        r"\b(?:password|passphrase|passcode)[ \t]+(?:(?:is|was|has been|now|changed|set|reset|to)[ \t]+){1,4}[\"'`]?"
        r"(?P<v>(?=[A-Za-z!@#$%&*_.+-]*\d|[A-Za-z\d]*[!@#$%&*+]|(?:[a-z]+-){2,}[a-z]+\b(?=[^\w-]|$))[^\s\"'`«,;]{6,})",
        "password",
    ),
    _rule(
        "_key|_token|_secret|_password|_passwd|_pwd",
        r"(?<![\w-])(?P<name>[A-Za-z0-9_]{0,40}_(?:key|token|secret|password|passwd|pwd))[ \t]+[\"']?"
        r"(?P<v>(?=[A-Za-z_./+-]*\d)(?=[\d_./+-]*[A-Za-z])[A-Za-z0-9_./+=-]{10,})(?![A-Za-z0-9:(])",
    ),
    # netrc, and a key that only a blank parts from its name
    _rule("login", r"\blogin[ \t]+\S{1,80}\s+password[ \t]+(?P<v>[^\s«]+)", "password"),
    _rule("password", r"^\s*password[ \t]+(?P<v>[^\s«]{4,})[ \t]*$", "password"),
    _rule(
        "key|password|passwd|token",
        r"(?<![A-Za-z0-9_-])(?P<name>api[ _-]?key|access[ _-]?key|secret[ _-]?key"
        r"|password|passwd|token)[ \t]+(?:is[ \t]+|was[ \t]+)?[\"'`]?(?P<v>(?=[A-Za-z_.+/-]*\d)(?=[\d_.+/-]"
        r"*[A-Za-z])[A-Za-z0-9_.+/=-]{8,})(?![A-Za-z0-9:(])",
    ),
)

PEM: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<v>.*?)(?=-----END |\Z)", re.DOTALL)
_BASE64_RUN: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,}={0,2}")

_MARKS: Final = ("=", ":", '"', "'", "\\")
# Text without any of these (lower case) holds nothing that is looked for here. "token" and a few prompt words stand in
# every line of a serving log, so they count only in the forms in which they name a value.
TRIGGERS: Final = (
    "key",
    "secret",
    "pass",
    "pwd",
    "credential",
    "signature",
    "sig=",
    "authorization",
    "bearer",
    "basic ",
    "cookie",
    "webhook",
    "hooks.slack",
    "api.telegram",
    "connection_string",
    "connectionstring",
    "connection-string",
    "_token",
    "token=",
    'token"',
    "token'",
    "token\\",
    "token\0",
    "token\x1b",
    "auth",
    "--token",
    " token:",
    "\ttoken:",
    "\ntoken:",
    "{token:",
    "h-token:",
    "t-token:",
    "s-token:",
    "n-token:",
    "i-token:",
    "r-token:",
    "using token",
    "with token",
    "token is",
    "_pat=",
    "_pat:",
    '_pat"',
    "hf_",
    "sk-",
    "akia",
    "asia",
    "aroa",
    "aida",
    "abia",
    "acca",
    "gho_",
    "ghp_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat",
    "glpat-",
    "gldt-",
    "glrt-",
    "glcbt-",
    "glptt-",
    "glft-",
    "glsoat-",
    "xox",
    "xapp-",
    "nvapi-",
    "hvs.",
    "hvb.",
    "hvr.",
    "aiza",
    "ya29.",
    "gocspx",
    "eyj",
    "npm_",
    "pypi-",
    "dop_v1",
    "dckr_",
    "gsk_",
    "xai-",
    "r8_",
    "pplx-",
    "tgp_v1",
    "fw_",
    "sg.",
    "k_live_",
    "k_test_",
    "whsec_",
    "lin_api_",
    "dapi",
    "ms-",
    "wandb_",
    "glc_",
    "api_org_",
    "$1$",
    "$2",
    "$5$",
    "$6$",
    "$7$",
    "$y$",
    "$gy$",
    "$sha1$",
    "$argon2",
    "://",
    "curl",
    "-u ",
    "--user",
    "mysql",
    "mariadb",
    "redis-cli",
    "login",
    "mongo",
    "ldapsearch",
    "smbclient",
    "_ids",
    "embeds",
    "schema",
    "regex",
    "ebnf",
    "image_",
    "video_data",
    "audio_data",
    "arguments",
    "structural_tag",
    "instructions",
    "suffix",
    "messages",
    "refusal",
    *(
        f"{word}{mark}"
        for word in ("text", "texts", "prompt", "prompts", "content", "put", "puts", "query", "completion")
        for mark in _MARKS
    ),
    *(f"{word} {mark}" for word in ("text", "prompt", "content", "put", "token") for mark in "=:"),
)


def secrets(text: str, lower: str, start: int, end: int) -> Iterator[Found]:
    """Secrets by context and shape between two places of a text; `lower` is the text in lower case."""
    covered = start
    for low, high in sorted(_names(text, lower, start, end, _CORES)):
        name = lower[low:high].lstrip("-.")
        if low >= covered and _SECRET_NAME.fullmatch(name):
            spans, done = _values(text, low, high, end)
            for span in spans:
                for secret in _checked(text, name, span):
                    done = max(done, secret.end)
                    yield secret
            covered = max(covered, done)
    for rule in RULES:
        if any(lower.find(word, start, end) >= 0 for word in rule.needs):
            for found in rule.pattern.finditer(text, start, end):
                yield from _checked(text, found.groupdict().get("name") or rule.label, found.span("v"))
    for found in SHAPES.finditer(text, start, end):
        yield Found(*found.span("v"), f"secret:{_shape(found['v'])}", True)


def vendors(text: str) -> Iterator[Found]:
    """Tokens of vendors, in lines that hold a long run of letters and digits."""
    done = 0
    for run in LONG_RUN.finditer(text):
        if run.start() < done:
            continue
        start = max(done, text.rfind("\n", max(0, run.start() - 4_096), run.start()) + 1, run.start() - 4_096)
        done = text.find("\n", run.end())
        done = len(text) if done < 0 else done
        for found in VENDORS.finditer(text, start, done):
            yield Found(*found.span("v"), f"secret:{_shape(found['v'])}", True)


def prompts(text: str, lower: str, start: int, end: int) -> Iterator[Found]:
    """What users wrote, and what was answered."""
    covered = start
    for low, high in sorted(_names(text, lower, start, end, _PROMPT_CORES)):
        name = lower[low:high].lstrip("-.").rpartition(".")[2]
        if name not in _PROMPT_NAMES or low < covered:
            continue
        found = next(filter(None, (pattern.match(text, high, end) for pattern in _PROMPT_VALUES)), None)
        if found and found["v"] and not re.fullmatch(r"«.*|<[^<>\s]{1,40}>|\[\s*\]?|None|auto", found["v"]):
            covered = found.end("v")
            yield Found(*found.span("v"), f"prompt:{label(name)}", False)


def _names(text: str, lower: str, start: int, end: int, cores: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Where identifiers stand that hold one of the words."""
    seen: set[int] = set()
    for core in cores:
        at = lower.find(core, start, end)
        while at >= 0:
            before = _BEFORE.search(text, max(start, at - 60), at)
            after = _AFTER.match(text, at + len(core), end)
            low = before.start() if before else at
            high = after.end() if after else at + len(core)
            if text.startswith("\x1b[", low - 2):  # the end of a colour is no letter of the name
                low = min(high, max(low, text.find("m", low, high) + 1))
            if high not in seen:
                seen.add(high)
                yield low, high
            at = lower.find(core, max(high, at + 1), end)


def _values(text: str, low: int, high: int, end: int) -> tuple[list[tuple[int, int]], int]:
    """The values behind a name, one or those of a list or mapping; and up to where all was looked at."""
    limit = min(len(text), high + _LONGEST_CONTAINER)
    if found := _CONTAINER.match(text, high, end):
        return _contained(text, found.start("v"), limit)
    if found := _LIST_BELOW.match(text, high, limit):
        return [item.span("v") for item in _ENTRY_BELOW.finditer(text, *found.span("v"))], found.end()
    span = _value(text, low, high, end)
    return [span] if span else [], 0


def _contained(text: str, start: int, limit: int) -> tuple[list[tuple[int, int]], int]:
    """Values between a bracket and the one that closes it; in a mapping not its keys. To the limit where none does."""
    depth = 0
    spans: list[tuple[int, int]] = []
    for found in _ITEM.finditer(text, start, limit):
        if mark := found["mark"]:
            depth += 1 if mark in "[{(" else -1
            if depth <= 0:
                return spans, found.end()
        elif found["v"] and not found["key"]:
            spans.append(found.span("v"))
        elif found["bare"] and not found["named"]:
            spans.append(found.span("bare"))
    return spans, limit


def _value(text: str, low: int, high: int, end: int) -> tuple[int, int] | None:
    """The value behind a name: its span."""
    if text.startswith("--", low):
        found = next(
            filter(None, (kind.match(text, high, end) for kind in (_FLAG_QUOTED, _FLAG_BARE, _FLAG_BELOW))), None
        )
        if found:
            return found.span("v")
    quote = text[low - 1] if low else ""
    if quote in _IN_QUOTES and text[low - 2 : low - 1] != "\\" and (found := _IN_QUOTES[quote].match(text, high, end)):
        return found.span("v")
    for pattern in (_BLOCK_VALUE, _QUOTED_VALUE, _BARE_VALUE):
        if found := pattern.match(text, high, end):
            return found.span("v")
    return None


def _checked(text: str, name: str, span: tuple[int, int]) -> Iterator[Found]:
    low, high = span
    if low < high and _is_secret(name, text[low:high]):
        yield Found(low, high, f"secret:{label(name)}", True)


def encoded(text: str, start: int, end: int) -> Iterator[Found]:
    """base64 in whose plain text a secret shows itself."""
    for found in _BASE64_RUN.finditer(text, start, end):
        run = found.group().rstrip("=")
        try:
            plain = base64.b64decode(run + "=" * (-len(run) % 4), altchars=b"-_" if set("-_") & set(run) else None)
            inner = plain.decode()
        except ValueError:
            continue
        if next(secrets(inner, inner.lower(), 0, len(inner)), None) is not None:
            yield Found(*found.span(), "secret:encoded", False)


def _is_secret(name: str, value: str) -> bool:
    if value.startswith("«") or _NOT_VALUES.fullmatch(value):
        return False
    lowered = name.lower()
    if _NOT_NAMES.search(lowered):
        return False
    if "pass" in lowered or "pwd" in lowered or "secret" in lowered:
        return True
    return not _NUMBER.fullmatch(value) and not re.fullmatch(r"/[\w./-]+|<\|.*\|>|[#@]?\w{1,3}", value)


def label(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40] or "value"


def _shape(value: str) -> str:
    return label(re.split(r"[-_.$]", value.lstrip("$"))[0][:8] or "key") + "_key"
