"""What the kernel is asked to do for a connection of a link."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent

import pytest

import rtmw
from rtmw.net.link.library import Connection
from tests.net import namespaces
from tests.net.link.ends import PATIENCE, tcp_pair
from tests.net.namespaces import Network

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
ROOT = Path(rtmw.__file__).parents[1]


def congestion_of(end: socket.socket) -> str:
    return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The sockets of two connections of a link on loopback."""
    one, other = tcp_pair()
    with one, other:
        for end in (one, other):
            for name in ("cubic", "bbr"):
                with suppress(OSError):  # of this kernel, or where the route locks one
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        connections = Connection(one.fileno()), Connection(other.fileno())
        yield one, other
        for connection in connections:
            connection.close()


def test_on_loopback_no_algorithm_paces() -> None:
    with connected() as ends:
        assert [congestion_of(end) for end in ends] == ["reno", "reno"]


@pytest.mark.skipif(namespaces.obstacle() is not None, reason=str(namespaces.obstacle()))
def test_an_algorithm_that_the_route_locks_stays() -> None:
    name = next((name for name in AVAILABLE.read_text().split() if name != "reno"), None)
    if name is None:
        pytest.skip("needs an algorithm beside reno: modprobe tcp_bbr")
    program = f"""
        from tests.net.link.test_options import congestion_of, connected

        with connected() as ends:
            assert [congestion_of(end) for end in ends] == [{name!r}, {name!r}]
    """
    network = Network(1)
    try:
        network.ip(0, "route", "change", "local", "127.0.0.1", "dev", "lo", "table", "local", "congctl", "lock", name)
        command = [*network.place(0).enter, sys.executable, "-c", dedent(program)]
        subprocess.run(command, cwd=ROOT, check=True, timeout=PATIENCE)
    finally:
        network.close()


def test_the_kernel_is_asked_to_hold_little_unsent_and_to_give_a_dead_way_up() -> None:
    """Seconds between probes, milliseconds until what is not acknowledged ends the connection, bytes."""
    one, other = tcp_pair()
    tcp = {
        "TCP_NODELAY": 1,
        "TCP_NOTSENT_LOWAT": 16 << 10,
        "TCP_KEEPIDLE": 5,
        "TCP_KEEPINTVL": 5,
        "TCP_USER_TIMEOUT": 20_000,
    }
    with one, other:
        connections = Connection(one.fileno()), Connection(other.fileno())
        for end in (one, other):
            assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert {name: end.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in tcp} == tcp
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(("option", "most_us"), [("TCP_RTO_MIN_US", 20_000), ("TCP_DELACK_MAX_US", 8_000)])
def test_what_is_lost_is_sent_again_soon_where_the_kernel_can(option: str, most_us: int) -> None:
    number = {"TCP_RTO_MIN_US": 45, "TCP_DELACK_MAX_US": 46}[option]
    one, other = tcp_pair()
    with one, other:
        try:
            assert one.getsockopt(socket.IPPROTO_TCP, number) > most_us, "by default"
        except OSError:
            pytest.skip(f"needs Linux 6.15, which has {option}")
        connection = Connection(one.fileno())
        assert one.getsockopt(socket.IPPROTO_TCP, number) <= most_us
        connection.close()
