"""How long the link of a certificate outlives it: until the next step of the node, and no step longer."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import rtmw
from rtmw import RtmwError
from rtmw.clock import CLOCK
from rtmw.net.link.handshake import dial
from rtmw.net.link.links import in_words
from rtmw.net.node import STEP_S
from tests.net.hosts import PATIENCE
from tests.net.link.nodes import links_of
from tests.net.security.site import Site
from tests.ports import free_port


async def outlive(domains: tuple[rtmw.Domain, rtmw.Domain], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, port = Site(folder), free_port()
    listens, connects = f'listen = "127.0.0.1:{port}"', 'connect = ["127.0.0.1:1"]'
    hub = links_of(domains[0], folder / "hub.toml", listens, site.node("rtmw://plant/hub"))
    press = links_of(domains[1], folder / "press.toml", connects, site.node("rtmw://plant/press"))
    hub.open()
    await dial(press, f"127.0.0.1:{port}")
    while not hub.sessions:
        await asyncio.sleep(0.01)
    (session,) = hub.sessions.values()
    assert session.who.certificate
    expires = session.who.certificate.expires
    monkeypatch.setattr(CLOCK, "wall", lambda: expires - 0.001)
    hub.step({}, ())
    assert [*hub.sessions.values()] == [session]
    monkeypatch.setattr(CLOCK, "wall", lambda: expires)
    hub.step({}, ())
    assert not hub.sessions
    press.close()
    hub.close()


async def expire(domains: tuple[rtmw.Domain, rtmw.Domain], folder: Path) -> None:
    """Dial again and again, until the moment has come."""
    site, port = Site(folder), free_port()
    listens, connects = f'listen = "127.0.0.1:{port}"', 'connect = ["127.0.0.1:1"]'
    hub = links_of(domains[0], folder / "hub.toml", listens, site.node("rtmw://plant/hub"))
    short = site.node("rtmw://plant/press", days=2 / 86400)
    press, links = links_of(domains[1], folder / "press.toml", connects, short), 0
    hub.open()
    error: RtmwError | OSError | None = None
    while error is None:
        try:
            await dial(press, f"127.0.0.1:{port}")
            links += 1
        except (RtmwError, OSError) as refusal:
            error = refusal
    assert links > 0
    assert re.match(r"the peer (refuses|says that).* expired", in_words(error, "")[1]), "by TLS, or behind it"
    with pytest.raises((RtmwError, OSError)):  # the first of those two connections may have been let in, and was closed
        await dial(press, f"127.0.0.1:{port}")
    (refused,) = hub.turned_away.recent()
    assert re.match(r"the (certificate of rtmw://plant/press|peer's certificate has) expired", refused.why)
    press.close()
    hub.close()


def test_a_certificate_that_expires_while_links_begin_ends_them_with_its_reason_at_both_ends(
    domains: tuple[rtmw.Domain, rtmw.Domain], tmp_path: Path
) -> None:
    asyncio.run(asyncio.wait_for(expire(domains, tmp_path), PATIENCE))


# Proves G228.
def test_a_link_ends_with_the_first_step_behind_the_expiry_of_its_certificate_and_ten_steps_are_a_second(
    domains: tuple[rtmw.Domain, rtmw.Domain], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(asyncio.wait_for(outlive(domains, tmp_path, monkeypatch), PATIENCE))
    assert 10 * STEP_S <= 1
