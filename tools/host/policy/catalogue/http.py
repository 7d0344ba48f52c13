"""curl, for SGLang's own reading endpoints on the loopback address. A GET is not a read: the list of paths decides.

sglang 0.5.9 srt/entrypoints/http_server.py:710-1260 has the routes that change state although they take GET.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tools.host.policy.catalogue.network import is_private
from tools.host.policy.options import Entry, Parsed, flags, never, valued
from tools.host.policy.roles import matching
from tools.host.policy.verdict import Finding, ask, deny

READER_ONLY: Final = ask("secret", "the answer holds the API keys: the built-in reader takes them out")

HTTP_PORT: Final = 80
HIGHEST_PORT: Final = 65_535
_SAFE: Final = frozenset(
    {
        "/health",
        "/ready",
        "/metrics",
        "/v1/models",
        "/model_info",
        "/get_model_info",
        "/get_load",
        "/v1/loads",
        "/version",
    }
)
_KEYS: Final = frozenset({"/server_info", "/get_server_info"})
_LOAD: Final = {"/health_generate": "runs a generation on the serving engine"}
_ADMIN: Final = frozenset(
    {"/hicache/storage-backend", "/get_hicache_l3_cache_layout", "/get_weights_by_name", "/docs", "/openapi.json"}
)
_QUERY: Final = re.compile(r"((include|format|dp_rank)=[a-z0-9_,]{1,60}(&|$))*")
_URL: Final = re.compile(
    r"http://(?P<host>[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(:(?P<port>\d{1,5}))?(?P<path>/[A-Za-z0-9_./-]*)?(\?(?P<query>.*))?"
)
_NO_SCHEME: Final = re.compile(r"[A-Za-z0-9.-]+(:\d+)?(/.*)?")


def _curl(parsed: Parsed) -> Iterable[Finding]:
    method = parsed.value("-X", "--request")
    if method and method != "GET":
        yield deny("http", f"{method} is not a read")
    if len(parsed.operands) != 1:
        yield deny("net", "exactly one URL is accepted")
    for url in parsed.operands:
        yield from _judge_url(url, parsed.ports)


def _judge_url(url: str, ports: frozenset[int]) -> Iterable[Finding]:
    found = _URL.fullmatch(url)
    if found is None and _NO_SCHEME.fullmatch(url):
        yield deny("net", f"write http:// before {url}: what is asked must stand there in full")
        return
    if found is None:
        yield deny("net" if url.startswith("http") else "secret", f"{url} is not a plain http URL")
        return
    host, path = found["host"], found["path"] or "/"
    if host.startswith("169.254.") or host in {"[fd00:ec2::254]", "metadata.google.internal", "100.100.100.200"}:
        yield deny("secret", "the cloud's credentials are served there")
    elif host == "localhost" or is_private(host):
        if host not in {"127.0.0.1", "[::1]"}:
            yield ask("net", f"{host} is not the loopback address as a literal, 127.0.0.1")
        elif int(found["port"] or HTTP_PORT) > HIGHEST_PORT:
            yield deny("net", f"{found['port']} is no port")
        elif (port := int(found["port"] or HTTP_PORT)) not in ports:
            yield ask("net", f"port {port} is not the one at which the server was found")
    else:
        yield deny("net", f"{host} lies outside: what is sent there leaves the network")
    yield from _judge_path(path, found["query"] or "")


def _judge_path(path: str, query: str) -> Iterable[Finding]:
    if path in _KEYS:
        yield READER_ONLY
    elif path in _LOAD:
        yield ask("load", _LOAD[path])
    elif path in _ADMIN:
        yield ask("http", f"{path} is not needed for a diagnosis as a rule")
    elif path not in _SAFE:
        yield deny("http", f"{path} is not on the list of endpoints that only read")
    if not _QUERY.fullmatch(query):
        yield deny("http", "the query holds more than include, format and dp_rank")


_CURL: Final = Entry(
    "/usr/bin/curl",
    {
        **flags(
            "-s -S -f -i -I -g -q -4 -6 --silent --show-error --fail --head --include --globoff"
            " --disable --compressed --http1.1"
        ),
        **valued(matching(r"[1-9]|[1-5]\d|60", "a time up to 60 s"), "-m --max-time --connect-timeout"),
        **valued(matching(r"[A-Z]+", "a method"), "-X --request"),
        **valued(matching(r"/dev/null", "/dev/null: writes a file"), "-o --output"),
        # Without `@` nothing is read, without `%output{` nothing written (curl's manual, --write-out).
        **valued(
            matching(r"(?!=)(?=.*%\{)(?:[A-Za-z0-9 _:=.,/-]|%\{[a-z_.]+\}|\\n)+", "a text of %{names}"),
            "-w --write-out",
        ),
        **never(
            "write-arg",
            "writes a file",
            "-D --dump-header -c --cookie-jar --trace --trace-ascii --stderr --etag-save --hsts --libcurl --output-dir",
            takes=True,
        ),
        **never("write-arg", "writes a file", "-O --remote-name -J --remote-header-name --remote-name-all"),
        **never(
            "http",
            "sends data",
            "-d --data --data-raw --data-binary --data-urlencode --json -F --form -T --upload-file --url-query",
            takes=True,
        ),
        **never(
            "net",
            "leads the request elsewhere",
            "-x --proxy --preproxy --resolve --connect-to --interface --socks5 --socks4"
            " --socks5-hostname --doh-url --unix-socket --abstract-unix-socket --url --dns-servers",
            takes=True,
        ),
        **never("net", "follows to elsewhere", "-L --location --location-trusted --next -:"),
        **never(
            "secret",
            "reads any file",
            "-K --config -b --cookie -E --cert --key --cacert --netrc-file -u --user",
            takes=True,
        ),
        **never(
            "secret",
            "sends what it is told, keys too",
            "-H --header -A --user-agent -e --referer --oauth2-bearer",
            takes=True,
        ),
        **never("secret", "reads logins", "-n --netrc"),
    },
    most=4,
    check=_curl,
    adds=("-q", "-g", "--noproxy=*", "--max-redirs=0", "--max-filesize=33554432"),
    privacy="redact",
)
_ELSEWHERE: Final = deny("net", "use curl with the loopback address")

ENTRIES: Final = {
    "curl": _CURL,
    "wget": Entry("/usr/bin/wget", finding=_ELSEWHERE, unknown=_ELSEWHERE, most=9),
}
