"""TLS of links as another implementation sees it, that of Python: no session goes on from one connection to another."""

from __future__ import annotations

import ssl
import time
from contextlib import suppress
from pathlib import Path

from rtmw.net.link.library import Connection, Context
from rtmw.net.security.certificates import AUTHORITIES, NODE
from tests.net.hosts import PATIENCE
from tests.net.link.ends import tcp_pair
from tests.net.security.site import Site


def client_of(site: Site) -> ssl.SSLContext:
    """One that takes tickets, and would use them."""
    keys = site.keys("rtmw://plant/press")
    context = ssl.create_default_context(cafile=str(keys / AUTHORITIES))
    context.check_hostname = False
    context.load_cert_chain(keys / NODE)
    return context


def meet(server: Context, client: ssl.SSLContext, session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool]:
    """The session that a connection leaves, after words of the server, and whether it went on from another one."""
    one, other = tcp_pair()
    with other, client.wrap_socket(one, do_handshake_on_connect=False, session=session) as secure:
        secure.setblocking(False)
        connection, has_said, heard, until = Connection(other.fileno(), server), False, b"", time.monotonic() + PATIENCE
        while not heard:
            assert time.monotonic() < until
            if connection.handshake() == "done" and not has_said:
                connection.say(b"hello")
                has_said = True
            with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                secure.do_handshake()
                heard = secure.recv(1000)
        assert secure.version() == "TLSv1.3"
        connection.close()
        return secure.session, bool(secure.session_reused)


def test_no_ticket_is_given_with_which_a_session_could_go_on_or_say_something_before_its_handshake(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path)
    pem, authorities = site.node("rtmw://plant/hub").material()
    server, client = Context(pem, authorities, True), client_of(site)
    session, _ = meet(server, client, None)
    assert session is not None
    assert not session.has_ticket
    assert meet(server, client, session)[1] is False
