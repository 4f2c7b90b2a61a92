"""Resume, credit and half-close as a model, so small that every order of steps and every cut can be tried.

One stream of three bytes goes from a sender to a receiver with a credit of one byte, its END is a counted control. A
connection is two queues. A cut loses what lies in them, and each side may notice it later than the other. Each rule in
`RULES` is needed: without it some order doubles a byte, loses one, goes beyond the credit, or comes to a stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

BYTES = 3
CREDIT = 1
CUTS = 3

RULES = (
    "bytes are sent again from the peer's position on",
    "END is sent again if the peer has not counted it",
    "END is counted",
    "credit is said again",
    "nothing but RESUME is sent before the peer's RESUME has come",
    "what comes over the connection before is not heard any more",
)

Message = tuple[str, int, int]
"""Kind, two numbers."""


@dataclass(frozen=True)
class State:
    sent: int = 0
    ended: bool = False
    """END was sent on this connection or counted by the peer."""
    limit: int = CREDIT
    may_send: bool = True
    received: int = 0
    read: int = 0
    told: int = CREDIT
    ends: int = 0
    """How often END was taken."""
    is_resumed: bool = True
    """The receiver has said RESUME on this connection."""
    forth: tuple[Message, ...] = ()
    back: tuple[Message, ...] = ()
    old: tuple[Message, ...] = ()
    """What the connection before still brings to the receiver."""
    cuts: int = 0
    doubled: bool = False

    @property
    def wrong(self) -> str | None:
        if self.doubled:
            return "a byte was doubled or is missing"
        if self.received - self.read > CREDIT:
            return "more than the credit has come"
        return "END was taken twice" if self.ends > 1 else None

    @property
    def is_over(self) -> bool:
        return self.read == BYTES and self.ends == 1


def _take(state: State, message: Message) -> State:
    """The receiver takes what came."""
    kind, number, _ = message
    if kind == "DATA":
        return replace(state, doubled=state.doubled or number != state.received, received=state.received + 1)
    return replace(state, ends=state.ends + 1)


def _hear(state: State, message: Message, rules: frozenset[str]) -> State:
    """The sender hears a RESUME (received, ends counted) or a credit."""
    kind, number, counted = message
    if kind == "CREDIT":
        return replace(state, limit=max(state.limit, number))
    if RULES[0] in rules:
        state = replace(state, sent=number)
    ended = state.ended
    if RULES[1] in rules:
        ended = counted > 0 if RULES[2] in rules else False
    return replace(state, may_send=True, ended=ended)


def steps(state: State, rules: frozenset[str]) -> Iterator[State]:
    """Every step that either side or the wire may take next."""
    if state.may_send and state.sent < min(BYTES, state.limit):
        yield replace(state, sent=state.sent + 1, forth=(*state.forth, ("DATA", state.sent, 0)))
    if state.may_send and not state.ended:
        yield replace(state, ended=True, forth=(*state.forth, ("END", BYTES, 0)))
    if state.forth:
        yield _take(replace(state, forth=state.forth[1:]), state.forth[0])
    if state.back:
        yield _hear(replace(state, back=state.back[1:]), state.back[0], rules)
    if state.read < state.received:
        yield replace(state, read=state.read + 1)
    if state.is_resumed and state.told < state.read + CREDIT:
        told = state.read + CREDIT
        yield replace(state, told=told, back=(*state.back, ("CREDIT", told, 0)))
    if state.old:
        yield _take(replace(state, old=state.old[1:]), state.old[0])
    yield from _connections(state, rules)


def _connections(state: State, rules: frozenset[str]) -> Iterator[State]:
    if state.cuts < CUTS:
        for kept in range(len(state.forth) + 1):  # a part of what was sent still arrives
            arrived = replace(state, forth=())
            for message in state.forth[:kept]:
                arrived = _take(arrived, message)
            may_send = RULES[4] not in rules
            yield replace(arrived, back=(), cuts=state.cuts + 1, may_send=may_send, is_resumed=False)
            if RULES[5] not in rules:
                yield replace(state, forth=(), old=state.forth[:kept], back=(), cuts=state.cuts + 1, may_send=may_send,
                              is_resumed=False)  # fmt: skip
    if not state.is_resumed:
        said: list[Message] = [("RESUME", state.received, state.ends)]
        if RULES[3] in rules:
            said.append(("CREDIT", state.told, 0))
        yield replace(state, is_resumed=True, back=(*state.back, *said))


def search(rules: frozenset[str]) -> tuple[int, str | None]:
    """States met, and what goes wrong in one of them; None if nothing does in any."""
    first = State()
    met, todo = {first}, [first]
    while todo:
        state = todo.pop()
        if state.wrong:
            return len(met), state.wrong
        following = set(steps(state, rules))
        if not following and not state.is_over:
            return len(met), "it stands still before all has come"
        todo += following - met
        met |= following
    return len(met), None
