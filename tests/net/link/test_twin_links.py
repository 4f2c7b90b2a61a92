"""Who has a twin: the side that dialled the line asks for it, where the way is far and the peer takes one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

import rtmw
from rtmw.errors import SessionError
from rtmw.net.link.handshake import Greeted, Talk, dial, greet
from rtmw.net.link.library import Connection
from rtmw.net.link.links import Links, Session, is_missing
from rtmw.net.link.messages import PARTS, TWIN, Join, Message
from rtmw.net.security.identity import Peer
from rtmw.net.session.errors import Code, Violation
from tests.net.hosts import PATIENCE
from tests.net.link.ends import tcp_pair
from tests.net.link.nodes import links_of
from tests.net.security.site import Site
from tests.ports import free_port


async def until(what: Callable[[], object]) -> None:
    while not what():
        await asyncio.sleep(0.01)


def has_twin(session: Session) -> int:
    return session.linked.line.info()["twin"]


def twins(session: Session) -> int:
    return session.linked.line.info()["twins"]


With = Callable[[Links, Links, Session, Session], Awaitable[None]]


def in_links(domains: tuple[rtmw.Domain, rtmw.Domain], folder: Path, then: With, *, takes: bool = True) -> None:
    """Two nodes in this process, hub and press, of which press has dialled; `takes`: hub takes twins."""

    async def run() -> None:
        port, site = free_port(), Site(folder)
        keys = [site.node(f"rtmw://plant/{name}") for name in ("hub", "press")]
        hub = links_of(domains[0], folder / "hub.toml", f'listen = "127.0.0.1:{port}"', keys[0])
        press = links_of(domains[1], folder / "press.toml", f'connect = ["127.0.0.1:{port}"]', keys[1])
        hub.register.mine = replace(hub.register.mine, twin=takes)
        try:
            hub.open()
            press.open()
            for links in (hub, press):
                await until(lambda links=links: [one.linked.is_up for one in links.sessions.values()] == [True])
            (here,), (there,) = press.sessions.values(), hub.sessions.values()
            await then(press, hub, here, there)
        finally:
            press.close()
            hub.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_a_far_line_has_a_twin_and_has_it_again_when_it_was_cut(
    domains: tuple[rtmw.Domain, rtmw.Domain], tmp_path: Path
) -> None:
    async def then(_press: Links, _hub: Links, here: Session, there: Session) -> None:
        assert not here.linked.is_far, "no host is farther than a round trip of 5 ms from itself"
        assert twins(here) == 0
        here.linked.is_far = True
        await until(lambda: has_twin(here) and has_twin(there))
        before = twins(here)
        broken, other = tcp_pair()
        there.linked.line.twin(Connection(broken.fileno()))
        broken.close()
        other.close()
        await until(lambda: twins(here) > before and has_twin(here) and has_twin(there))
        assert here.why_no_twin == ""
        assert [one.linked.line.info()["resumes"] for one in (here, there)] == [1, 1]

    in_links(domains, tmp_path, then)


@pytest.mark.parametrize("takes", [True, False])
def test_the_side_that_dialled_asks_for_it_if_the_peer_takes_one(
    domains: tuple[rtmw.Domain, rtmw.Domain], tmp_path: Path, takes: bool
) -> None:
    async def then(_press: Links, _hub: Links, here: Session, there: Session) -> None:
        assert not is_missing(here), "the way is short"
        here.linked.is_far = there.linked.is_far = True
        assert (is_missing(here), is_missing(there)) == (takes, False)

    in_links(domains, tmp_path, then, takes=takes)


@pytest.mark.parametrize(
    ("line", "incarnation", "certificate", "why"),
    [
        (1, 0, None, "a line that has ended here"),
        (0, 1, None, "another node than that of the line"),
        (0, 0, Peer("rtmw://plant/press", 1, 0.0, 0.0, ""), "have shown two certificates"),
    ],
)
def test_a_twin_is_of_the_line_and_of_the_node_and_certificate_that_the_line_has(
    domains: tuple[rtmw.Domain, rtmw.Domain], tmp_path: Path, line: int, incarnation: int, certificate: Peer | None,
    why: str,
) -> None:  # fmt: skip
    async def then(_press: Links, hub: Links, _here: Session, there: Session) -> None:
        one, other = tcp_pair()
        talk, mine = Talk(asyncio.get_running_loop(), one, None), there.who
        hello = replace(mine.hello, incarnation=mine.hello.incarnation + incarnation)
        who = replace(mine, hello=hello, certificate=certificate or mine.certificate)
        with pytest.raises(Violation, match=why):
            await hub.twins.accept(who, Join(1, TWIN, there.linked.number + line), talk)
        talk.close()
        other.close()
        assert twins(there) == 0

    in_links(domains, tmp_path, then)


class Carried(Talk):
    """While it says that there is a twin, the line is given other connections."""

    session: Session | None = None

    async def say(self, message: Message) -> None:
        await super().say(message)
        if self.session is not None:
            self.session.who = replace(self.session.who)


@pytest.mark.parametrize("is_carried", [False, True])
def test_a_twin_is_not_taken_beside_other_connections_than_those_that_it_was_compared_with(
    domains: tuple[rtmw.Domain, rtmw.Domain], tmp_path: Path, is_carried: bool
) -> None:
    async def then(_press: Links, hub: Links, _here: Session, there: Session) -> None:
        one, other = tcp_pair()
        talk = Carried(asyncio.get_running_loop(), one, None)
        talk.session = there if is_carried else None
        await hub.twins.accept(replace(there.who), Join(1, TWIN, there.linked.number), talk)
        is_given = talk.connection.fileno() < 0
        assert is_given is not is_carried
        talk.close()
        other.close()

    in_links(domains, tmp_path, then)


def test_a_try_that_fails_in_whatever_way_is_told_without_what_moves_a_cursor_and_is_made_again(
    domains: tuple[rtmw.Domain, rtmw.Domain], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise Violation("\x1b[2J", Code.REFUSED)

    async def fail(*_: object) -> Greeted:
        raise KeyError("\x1b[2J")

    async def then(_press: Links, hub: Links, here: Session, there: Session) -> None:
        here.linked.is_far = True
        with monkeypatch.context() as patch:
            patch.setattr(hub.twins, "accept", refuse)
            await until(lambda: here.why_no_twin)
            assert here.why_no_twin == "the peer refuses: \\x1b[2J"
            patch.setattr("rtmw.net.link.links.greet", fail)
            await until(lambda: here.why_no_twin.startswith("KeyError: "))
        await until(lambda: has_twin(here) and has_twin(there))
        assert here.why_no_twin == ""

    in_links(domains, tmp_path, then)


def test_both_connections_of_a_line_show_one_certificate(
    domains: tuple[rtmw.Domain, rtmw.Domain], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line is looked at by one: what was revoked of another one would stay."""
    renewed = Peer("rtmw://plant/press", 1, 0.0, 0.0, "")

    async def then(press: Links, hub: Links, _here: Session, there: Session) -> None:
        talks = [Talk(asyncio.get_running_loop(), one, None) for one in tcp_pair()]
        first, second = (Join(7, part, 0) for part in PARTS)
        waiting = asyncio.create_task(hub.joins.meet(there.who, first, talks[0]))
        await asyncio.sleep(0)
        with pytest.raises(Violation, match="have shown two certificates"):
            await hub.joins.meet(replace(there.who, certificate=renewed), second, talks[1])
        with pytest.raises(Violation, match="have shown two certificates"):
            await waiting

        shown = iter([None, renewed])

        async def met(links: Links, talk: Talk, address: str) -> Greeted:
            who = await greet(links, talk, address)
            return replace(who, certificate=next(shown) or who.certificate)

        (place,) = press._settings.link.connect
        with monkeypatch.context() as patch:
            patch.setattr("rtmw.net.link.handshake.greet", met)
            with pytest.raises(SessionError, match="have shown two certificates"):
                await dial(press, place)
        for talk in talks:
            talk.close()

    in_links(domains, tmp_path, then)


def test_what_a_peer_says_when_it_refuses_or_ends_is_told_without_what_moves_a_cursor(
    domains: tuple[rtmw.Domain, rtmw.Domain], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise Violation("\x1b[2J", Code.REFUSED)

    async def then(press: Links, hub: Links, here: Session, there: Session) -> None:
        monkeypatch.setattr(hub.joins, "meet", refuse)
        there.linked.line.cut("\x1b[2J")
        await until(lambda: press.why)
        assert here.linked.why_down == "the peer says: \\x1b[2J"
        assert [*press.why.values()] == ["the peer refuses: \\x1b[2J"]

    in_links(domains, tmp_path, then)
