"""The two connections of a link until a line has them: what is looked at first, and how long it may take."""

from __future__ import annotations

import asyncio
import io
import logging
import select
import socket
import ssl
import sys
from pathlib import Path

import pytest

import rtmw
from rtmw.net.link.handshake import LinkGuest, dial
from rtmw.net.link.links import Links
from rtmw.net.security.certificates import NODE
from rtmw.text.daemon_log import LINES_MOST, VisibleLines, written
from tests.net.hosts import PATIENCE
from tests.net.link.nodes import links_of
from tests.net.security.site import Site
from tests.net.session.skipping import ended, run_skipping, skip
from tests.ports import free_port

PATIENCE_S = 3.0
"""What is promised: so long a peer may take until a line has both connections."""
SERVER_HELLO = b"\x16\x03\x03\x02\x00\x02"
"""As the record of a ServerHello begins. The rest of the record does not come."""


def listening(domain: rtmw.Domain, folder: Path) -> tuple[Links, int]:
    """Links of a node with keys, and the port where it accepts others."""
    port = free_port()
    identity = Site(folder).node("rtmw://plant/hub")
    links = links_of(domain, folder / "hub.toml", f'listen = "127.0.0.1:{port}"', identity)
    links.open()
    return links, port


@pytest.mark.parametrize(
    ("first", "ends", "why"),
    [
        (SERVER_HELLO, False, "what came is no TLS"),
        (b"GET / ", False, "what came is no TLS"),
        (SERVER_HELLO[:3], True, "what came is no TLS"),
        (b"", True, "it said nothing"),
    ],
)
def test_no_tls_is_begun_before_six_bytes_that_begin_as_a_client_does(
    third: rtmw.Domain, tmp_path: Path, first: bytes, ends: bool, why: str
) -> None:
    """OpenSSL would wait for the rest of the record, or say it in other words."""

    async def run() -> None:
        links, port = listening(third, tmp_path)
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(first)
            if ends:
                stranger.shutdown(socket.SHUT_WR)
            while not links.refused:
                await asyncio.sleep(0.01)
        assert [one.why for one in links.turned_away.recent()] == [why]
        links.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


# Proves G290.
def test_a_flood_of_connections_that_are_refused_is_sixty_lines_in_the_log(
    third: rtmw.Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each for another reason than the one before, which the log would say again."""

    async def run() -> None:
        links, port = listening(third, tmp_path)
        for number in range(2 * LINES_MOST):
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                if number % 2:
                    stranger.sendall(b"GET / ")
                stranger.shutdown(socket.SHUT_WR)
                while links.refused.total() == number:
                    await asyncio.sleep(0.001)
        links.close()

    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with written(logging.getLogger("rtmw.node"), VisibleLines("%(message)s")):
        asyncio.run(asyncio.wait_for(run(), PATIENCE))
    lines = [line for line in log.getvalue().splitlines() if "no link with" in line]
    assert len(lines) == LINES_MOST
    assert lines[-1].startswith(f"{LINES_MOST + 1} more lines of this kind within a minute")


def test_a_guest_that_is_refused_hears_why_though_it_goes_on_to_speak_first(third: rtmw.Domain, tmp_path: Path) -> None:
    """A client of TLS 1.3 has done its handshake before its certificate is looked at, and says hello behind it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(Site(tmp_path / "elsewhere", "elsewhere").keys("rtmw://elsewhere/evil") / NODE)

    def speak(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain) as stranger:
            has_ended = select.poll()
            has_ended.register(stranger, select.POLLRDHUP)
            assert has_ended.poll(PATIENCE * 1e3)
            stranger.sendall(b"hello")
            with pytest.raises(ssl.SSLError, match="unknown ca"):
                stranger.recv(1)

    async def run() -> None:
        links, port = listening(third, tmp_path)
        await asyncio.to_thread(speak, port)
        links.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_a_guest_that_says_nothing_is_sent_away_after_three_seconds(third: rtmw.Domain, tmp_path: Path) -> None:
    async def run() -> None:
        links, _ = listening(third, tmp_path)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
            guest = LinkGuest(links, "", server.accept()[0], "127.0.0.1")
            greeting = asyncio.create_task(guest.greet())
            await asyncio.sleep(0)
            skip(PATIENCE_S)
            assert await ended(greeting)
            guest.over()
        assert [one.why for one in links.turned_away.recent()] == ["it took too long to say who it is"]
        links.close()

    run_skipping(run())


def test_a_node_that_says_nothing_is_left_after_three_seconds(third: rtmw.Domain, tmp_path: Path) -> None:
    async def run() -> None:
        links, _ = listening(third, tmp_path)
        with socket.create_server(("127.0.0.1", 0)) as mute:
            mute.setblocking(False)
            place = f"127.0.0.1:{mute.getsockname()[1]}"
            dialling = asyncio.create_task(dial(links, place))
            accepted, _ = await asyncio.get_running_loop().sock_accept(mute)
            with accepted:
                skip(PATIENCE_S)
                assert await ended(dialling)
                assert isinstance(dialling.exception(), TimeoutError)
        links.close()

    run_skipping(run())
