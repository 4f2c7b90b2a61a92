"""Hosts, ports and Unix sockets as people write them: names, addresses of IPv4 or IPv6, and what listens there."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

PORTS: Final = range(1, 65536)
IPV6: Final = re.compile(
    r"(?:\[([0-9a-fA-F:.]*:[0-9a-fA-F:.]+)\](?::(\d+))?|([0-9a-fA-F:.]*:[0-9a-fA-F.]*:[0-9a-fA-F:.]*))"
)
_NAME: Final = re.compile(r"([^:\s\[\]]+)(?::(\d+))?")
UNIX: Final = "unix:"
"""What stands before the path of a Unix socket."""
_PATH_MOST: Final = 107
"""Bytes that Linux takes (unix(7), sun_path)."""


def parts(peer: str) -> tuple[str, str | None]:
    """Host and port, of a name or an address. Raises ValueError."""
    match, name = IPV6.fullmatch(peer), _NAME.fullmatch(peer)
    host, port = (match[1] or match[3], match[2]) if match else (name[1], name[2]) if name else ("", None)
    if not host or (port and int(port) not in PORTS):
        raise ValueError(f"{peer!r} is no host; it must be a name or an address, such as 10.0.0.7 or fd00::7")
    return host, port


def place_to_reach(text: str) -> tuple[str, int]:
    """Host and port of `hub.plant:7447`, `10.0.0.7:7447` or `[fd00::7]:7447`. Raises ValueError."""
    try:
        host, port = parts(text)
    except ValueError:
        host, port = "", None
    if port is None:
        raise ValueError(f"{text!r} is not HOST:PORT, such as hub.plant:7447 or [fd00::7]:7447")
    return host, int(port)


def unix_path(text: str) -> str | None:
    """The path of `unix:/run/rtmw/a.sock`; None: this is no Unix socket, but a host. Raises ValueError."""
    if not text.startswith(UNIX):
        return None
    path = text.removeprefix(UNIX)
    if not path.startswith("/") or path.endswith("/") or len(path.encode()) > _PATH_MOST or not path.isprintable():
        raise ValueError(
            f"{text!r} is no Unix socket; its path begins with / and has at most {_PATH_MOST} bytes, such as "
            "unix:/run/rtmw/a.sock"
        )
    return path


def is_loopback(host: str) -> bool:
    """Is this an address of loopback? A name other than localhost is none: the host that answers to it may change."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def bracketed(address: str) -> str:
    """An address as it stands before a port: an IPv6 address in brackets (RFC 3986)."""
    return f"[{address}]" if ":" in address else address


def metrics_url(address: str, port: int) -> str:
    """Returns the URL that Prometheus scrapes."""
    return f"http://{bracketed(address)}:{port}/metrics"


def place_to_listen(text: str) -> tuple[str, int]:
    """Address and port of `127.0.0.1:9464` or `[::1]:9464`. Raises ValueError."""
    host, _, port = text.rpartition(":")
    inside = host[1:-1] if host.startswith("[") else host
    try:
        address, number = str(ip_address(inside)), int(port)
    except ValueError:
        address, number = "", -1
    if bracketed(address) != host or not 0 <= number <= 65535:
        raise ValueError(f"{text!r} is not ADDRESS:PORT of this host, such as 127.0.0.1:9464 or [::]:9464")
    return address, number
