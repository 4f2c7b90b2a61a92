"""What a peer may make this end hold for it is bounded, for the peer as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pytest

import rtmw
from rtmw import Reliability, RtmwError
from rtmw.net.link import linked as linked_module
from rtmw.net.link.control import Control
from rtmw.net.link.lanes import wanted_of
from rtmw.net.link.library import Line, Route
from rtmw.net.link.linked import CONTROLS_MOST, Linked
from rtmw.net.link.messages import Answer, Close, Denied, Hello, Interest, Message, Open, pack, read
from rtmw.net.link.routes import ENDLESS, Account, Refusal
from rtmw.net.neighbours import LocalTopic, Subscribing, origin
from rtmw.net.security.rules import Rights, Rule, RuleTable
from rtmw.net.settings import Settings
from rtmw.net.topics import Ended
from rtmw.publisher import wire_type
from rtmw.types import ANY, resolve
from tests.net.link.ends import PATIENCE, Ends, wait_until
from tests.net.link.format import begin
from tests.net.link.test_control import PEER, PUBLISHER, SUBSCRIBER, All, allowing, an_open, said
from tests.net.link.test_hostile import Stranger

RELIABLE = Reliability.RELIABLE
HELD, WINDOW = 200_000, 1 << 20
TYPES = 256


# ---- messages ----


@pytest.fixture
def bounded(ends: Ends) -> Ends:
    """The line there holds so much of what finds no room on its bus."""
    there = ends.there
    there.line.close()
    there.line = Line(there.bus, there.zero_copy_most, 0, 1, 1, HELD)
    return ends


# Proves G80.
def test_a_peer_gets_half_of_the_types_and_leaves_the_others_to_programs_of_this_host(ends: Ends) -> None:
    there, opened = ends.there, list[Route]()

    def open_one(number: int) -> None:
        type = wire_type(resolve(np.dtype([(f"peer{number}", "f8")])))
        about = (2, 0, 64, 0, origin(ends.here.domain), True, WINDOW)
        opened.append(there.line.inbound(number + 1, "strange", type, *about))

    for number in range(TYPES // 2):
        open_one(number)
    with pytest.raises(RtmwError, match="every type slot"):
        open_one(TYPES // 2)
    for number in range(TYPES // 2):
        rtmw.Publisher("own", np.dtype([(f"own{number}", "f8")]), domain=there.domain).close()
    with rtmw.Subscriber("strange", np.dtype([("peer3", "f8")]), domain=there.domain):
        assert there.domain.region.types()
    for route in opened:
        route.close()
    open_one(TYPES // 2)
    opened[-1].close()


class Stuck:
    """RELIABLE topics whose subscribers take nothing, and whose publishers do not wait."""

    def __init__(self, ends: Ends, stack: ExitStack, count: int) -> None:
        self.routes = [ends.route(f"stuck/{n}", window=WINDOW) for n in range(count)]
        self._readers: list[rtmw.Subscriber[bytes]] = []
        self._writers: list[rtmw.Publisher[bytes]] = []
        for n in range(count):
            reader = rtmw.Subscriber(
                f"stuck/{n}", domain=ends.there.domain, reliability=RELIABLE, depth=4, lease=PATIENCE
            )
            self._readers.append(stack.enter_context(reader))
            writer = rtmw.Publisher(
                f"stuck/{n}", domain=ends.here.domain, reliability=RELIABLE, max_blocking=0, depth=2000
            )
            self._writers.append(stack.enter_context(writer))
        self.sent = Counter[int]()

    def fill(self, size: int) -> None:
        for number, writer in enumerate(self._writers):
            while writer.publish(bytes(size)):
                self.sent[number] += 1

    def drain(self) -> Counter[int]:
        """What comes when the subscribers take."""
        got = Counter[int]()

        def all_came() -> bool:
            for number, reader in enumerate(self._readers):
                got[number] += len(reader.take_many(1000))
            return got == self.sent

        wait_until(all_came)
        return got


# Proves G238.
def test_many_full_topics_hold_no_more_than_a_few_and_lose_nothing(bounded: Ends) -> None:
    """The room of each shrinks as what is held grows, and another topic flows all the time."""
    with ExitStack() as stack:
        stuck = Stuck(bounded, stack, 12)
        bounded.route("flows")
        reader = stack.enter_context(rtmw.Subscriber("flows", domain=bounded.there.domain, reliability=RELIABLE))
        writer = stack.enter_context(
            rtmw.Publisher("flows", domain=bounded.here.domain, reliability=RELIABLE, max_blocking=PATIENCE)
        )
        bounded.join()
        bounded.up()
        for _ in range(30):
            stuck.fill(1000)
            assert writer.publish(b"x")
            assert bytes(reader.receive(timeout=PATIENCE).data) == b"x"
        held = bounded.there.line.info()["held"]
        assert HELD / 2 < held < 2 * HELD, "12 windows of 1 MiB each would be sixty times as much"
        stuck.drain()
        assert bounded.there.line.info()["held"] == 0
        assert sum(inbound.counters()["no_memory"] for _, inbound in stuck.routes) == 0


# Proves G239.
def test_a_node_that_ends_delivers_all_that_it_has_taken_of_topics_that_are_all_full(bounded: Ends) -> None:
    """And the other one holds no more for it than for one that stays."""
    with ExitStack() as stack:
        stuck = Stuck(bounded, stack, 12)
        bounded.join()
        bounded.up()
        wait_until(lambda: stuck.fill(1000) or all(out.counters()["blocked"] for out, _ in stuck.routes))
        for out, _ in stuck.routes:
            out.finish()
        wait_until(lambda: all(out.delivered() for out, _ in stuck.routes))
        assert HELD / 2 < bounded.there.line.info()["held"] < 2 * HELD
        assert sum(inbound.counters()["no_memory"] for _, inbound in stuck.routes) == 0
        stuck.sent = Counter({number: out.counters()["sent"] for number, (out, _) in enumerate(stuck.routes)})
        stuck.drain()


# Proves G238.
def test_a_peer_that_keeps_to_no_room_makes_this_end_hold_four_times_as_much_at_the_utmost(bounded: Ends) -> None:
    """It sends a window on each of its routes, as it was never told it could."""
    there, count = bounded.there, 20
    with ExitStack() as stack:
        routes = list[Route]()
        for number in range(1, count + 1):
            topic = f"in/{number}"
            stack.enter_context(
                rtmw.Subscriber(topic, domain=there.domain, reliability=RELIABLE, depth=1, lease=PATIENCE)
            )
            routes.append(there.line.inbound(number, topic, None, 2, 0, 8, 0, "rtmw bus 1", True, WINDOW))
        stranger = Stranger(there.line)
        stack.callback(stranger.close)
        for number in range(1, count + 1):
            for message in range(1, 30):
                stranger.bulk.sendall(begin(number, message, bytes(15_000)))
        wait_until(lambda: sum(_came(route) for route in routes) == count * 29)
        assert there.line.info()["held"] <= 4 * HELD
        assert sum(route.counters()["no_memory"] for route in routes) > 0
        for route in routes:
            route.close()
    assert there.line.info()["held"] == 0


def _came(route: Route) -> int:
    counted = route.counters()
    return counted["received"] + counted["no_memory"] + counted["delayed"]


# ---- controls ----


EVERYTHING = RuleTable((Rule(("*",), {"publish": ("*",), "subscribe": ("*",)}),))
NOTHING_KEPT: MappingProxyType[str, Ended] = MappingProxyType({"out": Ended(), "in": Ended()})


@pytest.fixture
def linked(ends: Ends) -> Iterator[Linked]:
    """The peer of `ends.there`, as a node has it."""
    hello = Hello(UUID(int=1), 1, 1, 1, "there", 1, ends.there.domain.id, origin(ends.there.domain), 0, 1)
    made = Linked(
        1, ends.here.line, hello, "", Rights(EVERYTHING), Settings(), WINDOW, NOTHING_KEPT, lambda _: {}, hello.region
    )
    yield made
    made.close("the test is over")


def waiting(linked: Linked) -> int:
    return len(linked._mouth._waiting)


def test_topics_that_come_and_go_while_a_link_is_cut_are_told_when_it_is_back(linked: Linked, ends: Ends) -> None:
    """As they are then: what was between is not remembered."""
    wants, nothing = LocalTopic((), (SUBSCRIBER,)), LocalTopic((), ())
    names = [f"t{number}" for number in range(3000)]
    for round_ in range(5):
        linked.see(dict.fromkeys(names, wants if round_ % 2 == 0 else nothing), names)
    assert waiting(linked) <= CONTROLS_MOST
    ends.join()
    heard = dict[str, bool]()

    def all_heard() -> bool:
        linked.see(dict.fromkeys(names, wants), [])
        linked.happened()
        linked.step()
        for kind, _, data in ends.there.line.events():
            message = read(data) if kind == "control" else None
            if isinstance(message, Interest):
                heard[message.topic] = bool(message.wanted)
        return heard == dict.fromkeys(names, True)

    wait_until(all_heard)


# Proves G238.
def test_a_peer_that_asks_and_hears_no_answer_loses_its_line(
    linked: Linked, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linked_module, "UNSAID_MOST", 100_000)
    monkeypatch.setattr("rtmw.net.link.linked.UNSAID_MOST", 100_000)
    ends.join()
    ends.up()
    asked = 0

    def is_over() -> bool:
        """It takes no events, and so no controls; but it goes on to say some."""
        nonlocal asked
        while ends.there.line.info()["controls"] < 1000:
            asked += 1
            ends.there.line.say(an_open(asked, "nobody/wants/it"))
        linked.happened()
        linked.step()
        return linked.over is not None

    wait_until(is_over)
    assert linked.over is not None
    assert linked.over.startswith("it takes no controls")
    assert linked._mouth._size < 150_000


# Proves G236.
def test_all_that_a_peer_wants_and_opens_has_a_limit_of_bytes() -> None:
    account = Account("", ENDLESS._replace(names=4000))
    control = Control(PEER, allowing(publish=("*",), subscribe=("*",)), All(), account=account)
    names = [f"t{number}" for number in range(40)]
    control.see({name: LocalTopic((PUBLISHER,), (SUBSCRIBER,)) for name in names}, names)
    wanted = wanted_of([SUBSCRIBER])
    answers = [said(control.heard(pack(Interest(name, wanted)))) for name in names]
    taken = [name for name, answer in zip(names, answers, strict=True) if isinstance(answer[0], Open)]
    assert 5 < len(taken) < len(names)
    (refused,) = answers[-1]
    assert isinstance(refused, Denied)
    assert refused.cause == "crowd"
    (answer,) = said(control.heard(an_open(1, "t0")))
    assert isinstance(answer, Answer)
    assert answer.cause == "crowd"
    for name in taken:  # what is wanted no more makes room
        control.heard(pack(Interest(name, ())))
    assert said(control.heard(an_open(2, "t0"))) == [Answer(2, "", "")]
    control.heard(pack(Close(2, 0)))
    control.drained(2)
    assert said(control.heard(an_open(3, "t0")))[-1] == Answer(3, "", "")


def test_routes_that_come_and_go_leave_nothing_behind() -> None:
    control = Control(PEER, allowing(publish=("*",), subscribe=("*",)), All())
    control.see({"a": LocalTopic((), (Subscribing(ANY, RELIABLE, 8, 0, 0, 0),))}, ["a"])
    for number in range(1, 400, 2):
        control.heard(an_open(number, "a"))
        control.heard(pack(Close(number, 0)))
        control.heard(an_open(number + 1, "a", description=resolve(bytes).description))
        control.heard(pack(Close(number + 1, 0)))
        control.drained(number)
        control.heard(pack(Interest("b", wanted_of([SUBSCRIBER]))))
        control.heard(pack(Interest("b", ())))
    assert not any(row.taken for row in control.share.account.rows())
    assert control.share._held == {}


# ---- what this host has no room for ----


def odd(number: int) -> np.dtype[np.void]:
    """A type that nobody else has."""
    return np.dtype([(f"odd{number}", "f8")])


class Asking:
    """A peer that asks for routes, and its answers, as `linked` has it."""

    def __init__(self, linked: Linked, ends: Ends) -> None:
        self._linked, self._ends, self._last = linked, ends, 0
        self._routes: list[Route] = []
        self.answers: dict[int, Answer] = {}
        self.heard: list[Message] = []
        ends.join()
        ends.up()

    def open(self, topic: str, kind: Any = bytes, sends: bool = True, **changes: int) -> int:
        """`sends`: its own bus has the type, too."""
        type = resolve(kind)
        self._last += 1
        carried = wire_type(type) if sends else None
        self._routes.append(self._ends.there.line.outbound(self._last, topic, carried, 2, 8, 0, 0, 0))
        self.say(an_open(self._last, topic, description=type.description, **changes))
        return self._last

    def send(self, topic: str, kind: np.dtype[np.void]) -> None:
        """A message of this type, by the routes of it."""
        with rtmw.Publisher(topic, kind, domain=self._ends.there.domain, reliability=RELIABLE) as publisher:
            assert publisher.publish(np.ones((), kind))

    def close(self) -> None:
        for route in self._routes:
            route.close()

    def say(self, data: bytes) -> None:
        self._ends.there.line.say(data)

    def wait_for(self, *routes: int) -> list[str]:
        """The causes of the answers to these."""
        self.wait_until(lambda: self.answers.keys() >= {*routes})
        return [self.answers[route].cause for route in routes]

    def wait_until(self, what: Callable[[], object]) -> None:
        """While `linked` does its work, and this peer hears it."""

        def has_happened() -> object:
            self._linked.happened()
            self._linked.step()
            self._hear()
            return what()

        wait_until(has_happened)

    def _hear(self) -> None:
        for kind, _, data in self._ends.there.line.events():
            message = read(data) if kind == "control" else None
            if message is not None:
                self.heard.append(message)
            if isinstance(message, Answer):
                self.answers[message.route] = message


@pytest.fixture
def asking(linked: Linked, ends: Ends) -> Iterator[Asking]:
    """`linked` wants forty topics of bytes, and one of any type."""
    anything = Subscribing(ANY, RELIABLE, 8, 0, 0, 0)
    topics = {f"plain/{number}": LocalTopic((), (SUBSCRIBER,)) for number in range(40)}
    topics["any"] = LocalTopic((), (anything,))
    linked.see(topics, [*topics])
    peer = Asking(linked, ends)
    yield peer
    peer.close()


@contextmanager
def no_type_is_left(domain: rtmw.Domain) -> Generator[None]:
    with ExitStack() as stack:
        for number in range(TYPES):
            own = np.dtype([(f"own{number}", "f8")])
            stack.enter_context(rtmw.Publisher("own", own, domain=domain))
        yield


# Proves G234.
def test_a_route_that_has_no_room_here_is_answered_and_no_other_control_is_lost(
    asking: Asking, linked: Linked, ends: Ends
) -> None:
    """In one batch with forty others; when room is there again, the peer is asked again."""
    anything = rtmw.Subscriber("any", ANY, domain=ends.here.domain, reliability=RELIABLE)
    with no_type_is_left(ends.here.domain):
        routes = [asking.open("plain/0"), asking.open("any", odd(1))]
        routes += [asking.open(f"plain/{number}") for number in range(1, 40)]
        assert asking.wait_for(*routes) == [""] * 41, "no message has come, so no slot is needed"
        asking.send("any", odd(1))
        asking.wait_until(lambda: asking.answers[routes[1]].cause)
        assert asking.answers[routes[1]].cause == "host"
        assert "every type slot is taken" in asking.answers[routes[1]].why
        assert len(linked.into) == 40
    asking.say(pack(Close(routes[1], 1)))
    asking.heard.clear()
    linked._again_at = 0.0
    asking.wait_until(lambda: any(isinstance(one, Interest) and one.topic == "any" for one in asking.heard))
    assert asking.wait_for(asking.open("any", odd(1))) == [""]
    asking.send("any", odd(1))
    asking.wait_until(lambda: len(anything.take_many(1)))
    anything.close()
    assert linked.over is None


# Proves G234.
def test_an_error_that_nobody_foresaw_costs_the_peer_its_route_alone(
    asking: Asking, linked: Linked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bad(topic: str) -> dict[int, int]:
        if topic == "plain/1":
            raise ZeroDivisionError(topic)
        return {}

    monkeypatch.setattr(linked, "_on_bus", bad)
    routes = [asking.open(f"plain/{number}", history=4) for number in range(3)]
    assert asking.wait_for(*routes) == ["", "host", ""]
    assert asking.answers[2].why == "ZeroDivisionError: plain/1"
    assert linked.over is None


# Proves G234.
def test_what_is_published_here_and_has_no_room_crosses_later_and_the_peer_is_told(
    asking: Asking, linked: Linked, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that wants more topics than there are slots for subscribers gets the others."""
    monkeypatch.setattr("rtmw.net.link.linked.AGAIN_S", 0.0)
    linked._again_at = 0.0
    real, full = linked.line, True

    class Full:
        """The line of a host whose slots are all taken when topic `b` is opened."""

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

        def outbound(self, number: int, topic: str, *about: object) -> Route:
            if topic == "b" and full:
                raise rtmw.LimitReached("every endpoint slot is taken")
            return real.outbound(number, topic, *about)  # type: ignore[arg-type]

    monkeypatch.setattr(linked, "line", Full())
    topics = {name: LocalTopic((PUBLISHER,), ()) for name in "abc"}
    linked.see(topics, [*topics])
    for name in topics:
        asking.say(pack(Interest(name, wanted_of([SUBSCRIBER]))))

    def opened() -> set[str]:
        return {one.topic for one in asking.heard if isinstance(one, Open)}

    asking.wait_until(lambda: opened() == {"a", "c"})
    asking.wait_until(lambda: any(isinstance(one, Denied) for one in asking.heard))
    assert Denied("b", "host", "every endpoint slot is taken") in asking.heard
    refusal = linked.control.outgoing.why_not("b")
    assert refusal is None or "this host" in refusal.why
    full = False
    asking.wait_until(lambda: opened() == {"a", "b", "c"})
    assert linked.control.outgoing.why_not("b") is None


# ---- what a peer may take of this host ----


# Proves G236.
def test_types_of_which_no_message_comes_take_no_slot(asking: Asking, ends: Ends) -> None:
    routes = [asking.open("any", odd(number), sends=False) for number in range(TYPES + 40)]
    assert {*asking.wait_for(*routes)} == {""}
    with no_type_is_left(ends.here.domain):
        assert len(ends.here.domain.region.types()) == TYPES


# Proves G236.
def test_a_peer_brings_as_many_types_as_its_budget_has_and_those_that_are_asked_for_here(
    asking: Asking, linked: Linked, caplog: pytest.LogCaptureFixture
) -> None:
    account = linked.control.share.account
    account.budget = ENDLESS._replace(types=2)
    asked_for = Subscribing(resolve(odd(9)), RELIABLE, 8, 0, 0, 0)
    linked.see({"any": linked.control._side.topics["any"], "own": LocalTopic((), (asked_for,))}, ["own"])
    odds = [asking.open("any", odd(number)) for number in range(3)]
    own = asking.open("own", odd(9))
    assert asking.wait_for(*odds, own) == ["", "", "", ""]
    for number in (0, 1):
        asking.send("any", odd(number))
        asking.wait_until(lambda of=odds[number]: linked.into[of].route.counters()["received"])  # type: ignore[misc]
    asking.send("any", odd(2))
    asking.send("own", odd(9))
    asking.wait_until(lambda: asking.answers[odds[2]].cause)
    words = "a peer may bring 2 types that nobody else here asks for (max_types of [link])"
    assert asking.answers[odds[2]] == Answer(odds[2], "crowd", words)
    asking.wait_until(lambda: linked.into[own].route.counters()["received"] == 1)
    assert words in caplog.text
    (row,) = [row for row in account.rows() if row.what == "types"]
    assert (row.taken, row.most, row.refused) == (2, 2, 1)
    assert asking.wait_for(asking.open("any", odd(3))) == ["crowd"], "at once, before it sends"
    asking.say(pack(Close(odds[0], 1)))
    asking.wait_until(lambda: odds[0] not in linked.into)
    assert asking.wait_for(asking.open("any", odd(3))) == [""]


# Proves G236.
def test_nodes_with_one_name_share_what_a_peer_may_take_and_a_line_that_is_over_gives_all_back() -> None:
    account = Account("", ENDLESS._replace(publishers=3, types=1))
    controls = [Control(PEER, allowing(publish=("*",)), All(), account=account) for _ in range(2)]
    topics = {name: LocalTopic((), (SUBSCRIBER,)) for name in "abcd"}
    causes = list[str]()
    for control in controls:
        control.see(topics, [*topics])
        for number, topic in enumerate("ab", 1):
            (answer,) = said(control.heard(an_open(number, topic)))
            assert isinstance(answer, Answer)
            causes.append(answer.cause)
    assert causes == ["", "", "", "crowd"]
    controls[0].share.close()
    assert said(controls[1].heard(an_open(3, "c"))) == [Answer(3, "", "")]
    controls[1].share.close()
    assert not any(row.taken for row in account.rows())


# Proves G236.
def test_what_a_peer_wants_beyond_its_budget_crosses_when_something_else_is_over() -> None:
    account = Account("", ENDLESS._replace(subscribers=2))
    control = Control(PEER, allowing(subscribe=("*",)), All(), account=account)
    topics = {name: LocalTopic((PUBLISHER,), ()) for name in "abc"}
    control.see(topics, [*topics])
    opened = [said(control.heard(pack(Interest(name, wanted_of([SUBSCRIBER]))))) for name in topics]
    words = "what a peer gets may take 2 subscribers (max_subscribers of [link])"
    assert [type(answers[0]) for answers in opened] == [Open, Open, Denied]
    assert opened[2][0] == Denied("c", "crowd", words)
    assert control.outgoing.why_not("c") == Refusal("crowd", f"this host: {words}")
    control.see({"b": topics["b"], "c": topics["c"]}, ["a"])
    control.left(1, 0)
    (again,) = said(control.again())
    assert isinstance(again, Open)
    assert control.outgoing.why_not("c") is None
    assert control.outgoing.routes.has("c")


# Proves G236.
def test_a_peer_leaves_an_eighth_of_the_endpoints_to_programs_of_this_host(ends: Ends) -> None:
    there, slots = ends.there, ends.there.domain.region.capacity["publishers"]
    opened = list[Route]()
    with ExitStack() as stack:
        for number in range(1, slots - slots // 8 + 1):
            opened.append(there.line.inbound(number, "strange", None, 2, 0, 64, 0, "rtmw bus 1", True, WINDOW))
        with pytest.raises(RtmwError, match="strange"):
            there.line.inbound(slots, "strange", None, 2, 0, 64, 0, "rtmw bus 1", True, WINDOW)
        for _ in range(slots // 8):
            stack.enter_context(rtmw.Publisher("own", domain=there.domain))
        for route in opened:
            route.close()
