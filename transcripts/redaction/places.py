"""Secrets by their place, where no name stands before the value, or the name is not enough.

A pattern names its secret `v`; `label` names the kind when it does not capture a `name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from transcripts.redaction.found import Found
from transcripts.redaction.names import checked


@dataclass(frozen=True, slots=True)
class Rule:
    pattern: re.Pattern[str]
    label: str
    needs: tuple[str, ...]


def _rule(needs: str, pattern: str, label: str = "") -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE | re.MULTILINE), label, tuple(needs.split("|")))


_PREDICATE: Final = (
    r"[a-z]+(?:ed|ing|able|ible|ory|al|ary|ent|ant|own|ten|ful|less|ect|ally)|invalid|valid|wrong|empty|missing|unset"
    r"|secret|private|plaintext|cleartext|hidden|strong|secure|insecure|unsafe|unique|enough|default|random|obsolete"
    r"|broken|mandatory|outdated|expire|never|blank|okay|simple|absent|public|shorter|longer|something|nothing|always|changed|online"
)


# `needs`: one of these words (lower case) is there.
RULES: Final = (
    # headers
    _rule(
        "authorization",
        r"(?P<name>authorization)\\*[\"']?[ \t]*[:=][ \t]*(?:\\*[\"'])?(?:(?:bearer"
        r"|basic|token|digest|apikey|negotiate|aws4-hmac-sha256)[ \t]+)?(?!(?:bearer"
        r"|basic|token|digest|apikey|negotiate)[ \t])(?P<v>[^\s\"'«\\][^\"'«\n\\]"
        r"*)",
    ),
    _rule("digest ", r"\bdigest[ \t]+(?P<v>(?:[a-z-]{1,20}=[^\n]*)?\bresponse=[^\n«]*)", "authorization"),
    _rule("bearer|basic", r"\b(?:bearer|basic)[ \t]+(?P<v>[A-Za-z0-9._~+/=:-]{8,})", "authorization"),
    _rule("cookie", r"(?<![A-Za-z-])cookie\\*[\"']?[ \t]*:[ \t]*(?:\\*[\"'])?(?P<v>[^\s\"'«\\][^\"'\n«\\]*)", "cookie"),
    _rule("set-cookie", r"set-cookie\\*[\"']?[ \t]*:[ \t]*(?:\\*[\"'])?[^\s=;«]{1,80}=(?P<v>[^\s;\"'«]+)", "cookie"),
    # URLs: user and password, keys in the query, webhooks
    _rule(
        "://", r"(?<![A-Za-z0-9])[a-z][a-z0-9+.-]{1,20}://[^\s/:@'\"«]{0,80}:(?P<v>[^\s/'\"«]{1,200})@", "url_password"
    ),
    _rule(
        "://",
        r"(?<![A-Za-z0-9])(?!(?:s?ftp|ssh|git|svn)(?:\+\w+)?://)[a-z][a-z0-9+.-]{1,20}://"
        r"(?P<v>[A-Za-z0-9_-]{20,}|(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{11,})@",
        "url_token",
    ),
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
        "passwd|-stdin|sudo|login",
        r"\becho[ \t]+[\"']?(?P<v>[^\s\"'«|]+)[\"']?[ \t]*\|[ \t]*"
        r"(?:sudo[ \t]+-S\b|(?:sudo[ \t]+)?(?:chpasswd|passwd)\b"
        r"|[^\n|]{0,200}--(?:password|token)-stdin\b|gh[ \t]+auth[ \t]+login[ \t]+--with-token)",
        "password",
    ),
    _rule(
        "login",
        r"\b(?:wandb|vault|hf|hf auth|huggingface-cli|gh auth|modelscope)[ \t]+login[ \t]+(?:--?[\w-]+[ \t]+){0,4}"
        r"(?P<v>(?=\D*\d)[A-Za-z0-9._-]{16,})",
        "token",
    ),
    _rule("ipmi", r"\bipmi(?:tool|power|-\w+)\b[^\n]{0,200}?[ \t]-[Pp][ \t]*[\"']?(?P<v>[^\s\"'«]+)", "password"),
    _rule(
        "requirepass|masterauth|bindpw|rootpw",
        r"\b(?:requirepass|masterauth|bindpw|rootpw)[ \t]+[\"']?(?P<v>[^\s\"'«]{4,})",
        "password",
    ),
    _rule(
        "pass",
        r"(?<![\w-])(?P<name>pass)[ \t]*=[ \t]*[\"']?(?P<v>(?=[^\sA-Za-z]*[A-Za-z])[^\s\"'«,;&]{4,})",
    ),
    _rule("key provided", r"\b(?P<name>(?:api|access) key) provided:[ \t]*[\"']?(?P<v>[^\s\"'«]{6,}[^\s\"'«.])"),
    _rule("ssh-keygen", r"\bssh-keygen\b[^\n]{0,200}?[ \t]-[NP][ \t]+[\"']?(?P<v>[^\s\"'«]+)", "password"),
    _rule("--from-literal", r"--from-literal[= ][\"']?[\w.-]{1,80}=(?P<v>[^\s\"'«]+)", "password"),
    _rule("htpasswd", r"\bhtpasswd[ \t]+-\w*b\w*[ \t]+\S+[ \t]+\S+[ \t]+(?P<v>[^\s\"'«]+)", "password"),
    _rule("openssl", r"\bopenssl[ \t][^\n]{0,200}?[ \t]-k[ \t]+[\"']?(?P<v>[^\s\"'«]+)", "password"),
    _rule("pass", r"-pass(?:in|out)?[ \t]+[\"']?pass:(?P<v>[^\s\"'«]+)", "password"),
    # a name and its value as two fields, as elements or as attributes
    _rule(
        "value",
        r"(?:name|key)\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?(?P<name>[A-Za-z0-9_.-]*"
        r"(?:key|token|secret|pass|pwd|passwd|password|credential|auth)s?(?:_id)?)\\*[\"']?[,\s]\s*\\*[\"']?value"
        r"\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?(?P<v>[^\s\"'«,}\\]+)",
    ),
    _rule(
        "value",
        r"value\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?(?P<v>[^\s\"'«,}\\]{1,8000})\\*[\"']?[,\s]\s*\\*[\"']?"
        r"(?:name|key)\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?(?P<name>[A-Za-z0-9_.-]{0,60}"
        r"(?:key|token|secret|pass|pwd|passwd|password|credential|auth)s?(?:_id)?)(?![\w.-])",
    ),
    # the columns of a table, or an arrow
    _rule(
        "key|token|secret|pass",
        r"(?<![\w-])(?P<name>[A-Za-z0-9_.]{0,40}(?:api_key|api-key|secret_key|access_key|_token|_secret|password|passwd"
        r"|passphrase))(?:[ \t]*(?:\||│|->|→)[ \t]*|\t[ \t]*| {2,})(?P<v>(?=\S*\d|\S{10})[^\s\"'«|│]{6,})"
        r"(?=[ \t]*(?:$|[|│\r]))",
    ),
    _rule(
        "set|env ",
        r"\b(?:setenv|set[ \t]+-[A-Za-z]{1,4}|ENV)[ \t]+(?P<name>\w{0,60}(?:key|token|secret|pass|pwd|passwd|password"
        r"|credentials?|auth))[ \t]+[\"']?(?P<v>[^\s\"'«]+)",
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
        "secret access key|secret key|access key|api key|private key|fernet key|shared key",
        r"\b(?P<name>(?:secret access|secret|access|api|private|fernet|(?:pre-?)?shared) key)"
        r"[ \t]*[:=][ \t]*[\"']?(?P<v>[^\s\"'«,;]{6,})",
    ),
    # prompts, and what people write
    _rule(
        "key|password|passphrase|passcode",
        r"\b(?P<name>(?:api|access|secret)[ _-]key|password|passphrase|passcode)[ \t]+(?P<q>[\"'`])"
        r"(?P<v>[^\s\"'`«]{6,})(?P=q)",
    ),
    _rule(
        "password|passphrase|passcode",
        r"\b(?:password|passphrase|passcode)[ \t]+(?:for|of)[ \t]+(?:[a-z ]{0,20}'[^'\n]*'|\"[^\"\n]*\"|[^:\n]{1,60})"
        r":[ \t]*(?P<v>[^\s«]{4,})",
        "password",
    ),
    _rule(
        "password|passphrase|passcode",
        r"\b(?:password|passphrase|passcode)[ \t]+(?:(?:is|was|has been|now|changed|set|reset|to):?[ \t]+){1,4}[\"'`]?"
        r"(?P<v>(?=[A-Za-z!@#$%&*_.+-]*\d|[A-Za-z\d]*[!@#$%&*+]|(?:[a-z]+-){2,}[a-z]+\b(?=[^\w-]|$))[^\s\"'`«,;]{6,})",
        "password",
    ),
    # a plain word that ends its clause, and is not what a password may be said to be
    _rule(
        "password|passphrase|passcode",
        r"\b(?:password|passphrase|passcode)[ \t]+(?:(?:for|of)[ \t]+[^\s:]{1,60}[ \t]+)?"
        r"(?:(?:is|was)(?:[ \t]+(?:now|still|just|simply))?:?|(?:changed|set|reset)[ \t]+to:?)[ \t]+"
        rf"(?!(?:{_PREDICATE})[\"'`]?(?:[.,;!)]?\s|[.,;!)]?$))(?P<q>[\"'`]?)(?P<v>[A-Za-z][A-Za-z0-9]{{5,40}})(?P=q)"
        r"(?=[.,;!)]?[ \t\r]*(?:$|[,;]))",
        "password",
    ),
    _rule("passphrase", r"\bpassphrase[ \t]+(?P<q>[\"'`])(?P<v>[^\"'`«\n]{6,})(?P=q)", "passphrase"),
    _rule(
        "_key|_token|_secret|_password|_passwd|_pwd",
        r"(?<![\w-])(?P<name>[A-Za-z0-9_]{0,40}_(?:key|token|secret|password|passwd|pwd))[ \t]+[\"']?"
        r"(?P<v>(?=[A-Za-z_./+-]*\d)(?=[\d_./+-]*[A-Za-z])[A-Za-z0-9_./+=-]{10,})(?![A-Za-z0-9:(])",
    ),
    # netrc, and a key that only a blank parts from its name
    _rule("login", r"\blogin[ \t]+\S{1,80}\s+password[ \t]+(?P<v>[^\s«]+)", "password"),
    # a plain scalar of YAML is the whole line, blanks and all
    _rule(
        "pass",
        r"^[ \t]*(?:-[ \t]+)?(?P<name>[\w.-]{0,40}(?:passphrase|password|passwd))[ \t]*:[ \t]+"
        r"(?P<v>[^\s\"'«|>{\[&*!][^\n\"'«#]{0,200}[^\s\"'«#])[ \t]*$",
    ),
    _rule("password", r"^\s*password[ \t]+(?P<v>[^\s«]{4,})[ \t]*$", "password"),
    _rule(
        "key|password|passwd|token",
        r"(?<![A-Za-z0-9_-])(?P<name>api[ _-]?key|access[ _-]?key|secret[ _-]?key"
        r"|password|passwd|token)[ \t]+(?:is[ \t]+|was[ \t]+)?[\"'`]?(?P<v>(?=[A-Za-z_.+/-]*\d)(?=[\d_.+/-]"
        r"*[A-Za-z])[A-Za-z0-9_.+/=-]{8,})(?![A-Za-z0-9:(])",
    ),
)

PEM: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<v>.*?)(?=-----END |\Z)", re.DOTALL)

# Everything in a Secret of Kubernetes is one, whatever it is called; its kind may stand behind its data.
_KUBE_DOCUMENT: Final = re.compile(r"^---", re.MULTILINE)
_KUBE_SECRET: Final = re.compile(r"^[ \t]*(?:- )?[\"']?kind[\"']?:[ \t]*[\"']?Secret[\"']?,?[ \t\r]*$", re.MULTILINE)
_KUBE_DATA: Final = re.compile(
    r"^(?P<in>[ \t]*)(?:data|stringData):[ \t\r]*\n(?P<v>(?:(?P=in)[ \t]+[^\n]*(?:\n|\Z))+)"
    r"|\"(?:data|stringData)\":\s*(?P<json>\{[^{}]*\})",
    re.MULTILINE,
)
_KUBE_ENTRY: Final = re.compile(r"^[ \t]+(?>[\w./-]+:(?:[ \t]+[\"']?|$))?+(?P<v>[^\s\"'«|>][^\n\"'«\r]*)", re.MULTILINE)
_KUBE_MEMBER: Final = re.compile(r":\s*\"(?P<v>[^\"«]+)\"")


def kube_secrets(text: str) -> Iterator[Found]:
    """The values of Kubernetes' objects of the kind Secret, in the whole text."""
    if "Secret" not in text or "ata" not in text:
        return
    start = 0
    for end in [*(mark.start() for mark in _KUBE_DOCUMENT.finditer(text)), len(text)]:
        if _KUBE_SECRET.search(text, start, end):
            for data in _KUBE_DATA.finditer(text, start, end):
                part, entry = ("v", _KUBE_ENTRY) if data["v"] else ("json", _KUBE_MEMBER)
                for found in entry.finditer(text, *data.span(part)):
                    yield Found(*found.span("v"), "secret:kubernetes", False)
        start = end


def placed(text: str, lower: str, start: int, end: int) -> Iterator[Found]:
    """What stands where secrets stand, between two places of a text; `lower` is the text in lower case."""
    for rule in RULES:
        if any(lower.find(word, start, end) >= 0 for word in rule.needs):
            for found in rule.pattern.finditer(text, start, end):
                yield from checked(text, found.groupdict().get("name") or rule.label, found.span("v"))
