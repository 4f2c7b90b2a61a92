"""Where something listens, as text: an address of IPv4 or IPv6, and a port."""

from __future__ import annotations

from ipaddress import ip_address


def bracketed(address: str) -> str:
    """An address as it stands before a port: an IPv6 address in brackets (RFC 3986)."""
    return f"[{address}]" if ":" in address else address


def metrics_url(address: str, port: int) -> str:
    """Where Prometheus scrapes."""
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
