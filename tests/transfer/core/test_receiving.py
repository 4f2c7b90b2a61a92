"""Inboxes that take letters of a core whose disk has little room: what can be handed over is, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rtmw.errors import LogFull
from rtmw.transfer.core.effects import Do, Steps, Tell
from rtmw.transfer.core.inboxes import Handing, Owners, Receiving
from rtmw.transfer.events import Now
from rtmw.transfer.frames import Frame
from rtmw.transfer.messages import Done, Handed, HandedRun, Message, Take
from rtmw.transfer.store import Machines, Volatile
from tests.transfer.driven import Driven
from tests.transfer.full import room_for
from tests.transfer.letters import me, send

LETTERS = 20


class Named(NamedTuple):
    name: str


class Taker:
    """One inbox of a store with letters."""

    def __init__(self, store: Driven) -> None:
        self.store = store
        machines = Machines(store.machine, Volatile("plant", 7, None, lambda: Now(0, 0)).machine, lambda: Now(0, 0))
        handing, owners = Handing(machines, store.spool.path), Owners(machines.logged)
        self.receiving = Receiving({me(): Named("ingest")}, machines, handing, owners)
        store.join("ingest", me())
        for number in range(LETTERS):
            send(store, b"%d" % number)

    def _told(self, steps: Steps) -> Iterator[Message]:
        answer, error = None, None
        while True:
            try:
                effect: Any = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration:
                return
            answer, error = None, None
            if isinstance(effect, Tell):
                yield effect.frame.message
            if isinstance(effect, Do):
                done = self.store.submit(effect.event)
                answer, error = done.answer, done.failure

    def take(self, most: int, waits: bool = False) -> tuple[list[bytes], int | None]:
        """The bodies that are handed over, and what the answer says; None: there is none yet."""
        take, bodies, count = Take(0, most, int(waits)), list[bytes](), None
        for message in self._told(self.receiving.take(Frame(me(), 0, 1, take), take)):
            if isinstance(message, Handed | HandedRun):
                handed = [message] if isinstance(message, Handed) else list(message)
                bodies += [one.body for one in handed if isinstance(one.body, bytes)]
            elif isinstance(message, Done):
                count = message.value
        return bodies, count


@pytest.fixture
def taker(tmp_path: Path) -> Iterator[Taker]:
    with Driven(tmp_path / "transfers", node="plant") as store:
        yield Taker(store)


def numbers(*span: int) -> list[bytes]:
    return [b"%d" % number for number in range(*span)]


@pytest.mark.parametrize(("room", "letters"), [(55, 1), (71, 2), (103, 4), (104, 8)])
@pytest.mark.parametrize("waits", [True, False])
def test_of_more_letters_than_the_disk_has_room_for_those_are_taken_that_can_be(
    taker: Taker, room: int, letters: int, waits: bool
) -> None:
    """A TAKE of n letters has 40 + 8 n bytes, and fewer letters are asked for by halves."""
    with room_for(taker.store._log, room):
        assert taker.take(8, waits) == (numbers(letters), letters)
    assert taker.take(LETTERS) == (numbers(letters, LETTERS), LETTERS - letters)


def test_without_any_room_a_take_is_refused_or_waits_and_no_letter_is_lost(taker: Taker) -> None:
    with room_for(taker.store._log, 0):
        with pytest.raises(LogFull):
            taker.take(8)
        assert taker.take(8, waits=True) == ([], None)
    assert taker.take(LETTERS) == (numbers(LETTERS), LETTERS)
