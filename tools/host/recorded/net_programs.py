"""Programs about the network: ss, ip, and curl to the server's own port."""

from __future__ import annotations

import re

from tools.host.recorded.derived import DerivedHost
from tools.host.recorded.options import Options, parse

Output = tuple[int, str, str]


def ss(host: DerivedHost, argv: list[str]) -> Output:
    letters = "".join(word[1:] for word in argv[1:] if word.startswith("-"))
    listeners = [("0.0.0.0", 22, "sshd", 2204, 3)]  # noqa: S104 - what the recorded host prints
    if host.service is not None and host.figures.server is not None:
        address, port = str(host.arguments.get("host") or "127.0.0.1"), int(str(host.arguments.get("port") or 30000))
        listeners.append((address, port, "python3", host.figures.server.pid, 47))
    if "s" in letters:
        return 0, "Total: 812\nTCP:   143 (estab 71, closed 52, orphaned 0, timewait 52)\n", ""
    head = "State    Recv-Q   Send-Q     Local Address:Port      Peer Address:Port  "
    lines = [head + ("Process" if "p" in letters else "")]
    for address, port, name, pid, descriptor in listeners:
        owner = f'users:(("{name}",pid={pid},fd={descriptor}))' if "p" in letters else ""
        lines.append(
            f"LISTEN   0        2048       {address + ':' + str(port):>18}           0.0.0.0:*      {owner}".rstrip()
        )
    return 0, "\n".join(lines) + "\n", ""


_CURL = Options(
    values={
        "m": "limit",
        "max-time": "limit",
        "connect-timeout": "limit",
        "H": "header",
        "header": "header",
        "X": "method",
        "request": "method",
        "w": "write",
        "write-out": "write",
        "o": "output",
        "output": "output",
        "max-filesize": "size",
        "proto": "proto",
        "max-redirs": "redirects",
        "noproxy": "proxy",
        "range": "range",
        "r": "range",
    },
    switches={
        "s": "silent",
        "S": "errors",
        "f": "fail",
        "silent": "silent",
        "show-error": "errors",
        "fail": "fail",
        "G": "get",
        "get": "get",
        "i": "include",
        "include": "include",
        "I": "head",
        "q": "q",
        "4": "v4",
        "g": "g",
        "globoff": "g",
        "no-progress-meter": "silent",
    },
)


def curl(host: DerivedHost, argv: list[str]) -> Output:
    asked = parse(_CURL, argv[1:])
    if not asked.operands:
        return 2, "", "curl: no URL specified!\n"
    found = re.fullmatch(r"(?:http://)?(127\.0\.0\.1|localhost|\[::1\])(?::(\d+))?(/[^#]*)?", asked.operands[0])
    quiet = asked.has("silent") and not asked.has("errors")
    if found is None:
        return 6, "", "" if quiet else f"curl: (6) Could not resolve host: {asked.operands[0]}\n"
    port = int(found[2] or 80)
    service = host.service
    listening = int(str(host.arguments.get("port") or 30000)) if service is not None else None
    if service is None or port != listening:
        text = f"curl: (7) Failed to connect to {found[1]} port {port} after 0 ms: Couldn't connect to server\n"
        return 7, "", "" if quiet else text
    tokens = [item.split("Bearer ", 1)[1] for item in asked.all("header") if "Bearer " in item]
    response = service.get(found[3] or "/", token=tokens[-1] if tokens else "")
    if asked.has("fail") and response.status >= 400:
        text = f"curl: (22) The requested URL returned error: {response.status}\n"
        return 22, "", "" if quiet else text
    reason = "OK" if response.status == 200 else "Error"
    head = f"HTTP/1.1 {response.status} {reason}\r\ncontent-type: {response.kind}\r\n\r\n"
    body = head + response.body if asked.has("include") else head if asked.has("head") else response.body
    if asked.last("output") == "/dev/null":
        body = ""
    written = (asked.last("write") or "").replace("%{http_code}", str(response.status)).replace("\\n", "\n")
    return 0, body + written, ""


def ip(host: DerivedHost, argv: list[str]) -> Output:
    """`ip addr` and `ip link`, the reading forms."""
    words = [word for word in argv[1:] if not word.startswith("-")]
    if not words or not any(kind.startswith(words[0]) for kind in ("address", "addr", "link")):
        return 1, "", f'Object "{words[0] if words else ""}" is unknown, try "ip help".\n'
    lines = ["1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000"]
    if not words[0].startswith("l"):
        lines.append("    inet 127.0.0.1/8 scope host lo")
    lines.append("2: eno1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP group default qlen 1000")
    if not words[0].startswith("l"):
        lines.append(f"    inet {host.figures.machine.address}/24 brd 10.20.0.255 scope global eno1")
    return 0, "\n".join(lines) + "\n", ""
