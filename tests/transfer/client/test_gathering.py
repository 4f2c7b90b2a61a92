"""Which letters go to the core at once, and which wait for its answer to others."""

from __future__ import annotations

from dataclasses import replace

from rtmw.errors import ClosedError
from rtmw.transfer.address import Life
from rtmw.transfer.client.group import ENOUGH, MOST_LETTERS, MOST_TOGETHER, Gathering, Group
from rtmw.transfer.header import Delivery, Header
from rtmw.transfer.messages import Accepted, Message
from tests.transfer.client.test_group import LIFE, SHORT, Sender, id_of

LOGGED = replace(SHORT, delivery=Delivery.LOG)


class Line:
    """Of one sender: its gathering, and the numbers of the frames that went out."""

    def __init__(self) -> None:
        self.gathering, self.out, self._sender = Gathering(self._put), list[int](), Sender()
        self._numbers, self.has_room = {LIFE: 1}, True

    def _put(self, life: Life, number: int, message: Message, waits: bool) -> bool:
        if self.has_room:
            self.out.append(number)
        return self.has_room

    def gather(self, header: Header = SHORT) -> Group:
        """A letter."""
        group = self.gathering.open.get(LIFE) or self.gathering.begin(self._sender)
        group.add(header, b"x")
        return group

    def send(self) -> None:
        self.gathering.number(self._numbers)
        self.gathering.send(waits=False)

    def fill(self) -> list[Group]:
        """As many groups as are enough go out."""
        groups: list[Group] = []
        for _ in range(ENOUGH):
            groups.append(self.gather())
            self.send()
        return groups

    def answer(self, group: Group) -> bool:
        group.take(group.number, Accepted(1, (id_of(group.number),)))
        return self.gathering.answered(1, group)


def test_a_letter_of_a_thread_waits_while_the_core_has_enough_to_do_and_goes_with_the_next_answer() -> None:
    line = Line()
    assert not line.gathering.may_wait(), "the core has nothing to do"
    first, *_ = line.fill()
    line.gather()
    assert line.gathering.may_wait()
    assert line.answer(first)
    line.send()
    assert line.out == list(range(1, ENOUGH + 2))
    assert line.gathering.unanswered == ENOUGH


def test_letters_of_log_wait_until_they_are_as_many_as_the_core_works_on() -> None:
    line = Line()
    for _ in range(3):
        first = line.gather(LOGGED)
    line.send()
    for waits in (True, True, False):
        line.gather(LOGGED)
        assert line.gathering.may_wait() is waits
    line.send()
    assert line.out == [1, 4]
    line.gather(LOGGED)
    assert line.gathering.may_wait(), "two groups are enough in any case"
    assert not line.answer(first)


def test_of_letters_that_wait_as_few_as_there_are_go_when_the_core_has_nothing_else_to_do() -> None:
    line = Line()
    line.gather()
    first = line.gather(LOGGED)
    line.send()
    line.gather(LOGGED)
    assert line.gathering.may_wait(), "one letter, where the core works on two"
    assert line.answer(first), "and now on one"
    line.send()
    assert line.out == [1, 3]


def test_while_the_core_has_enough_to_do_more_letters_fit_into_a_frame() -> None:
    line = Line()
    assert line.gather().full_at == MOST_LETTERS
    line.send()
    line.fill()
    assert line.gather().full_at == MOST_TOGETHER


def test_letters_without_a_disk_wait_for_no_others_while_the_core_has_one_group() -> None:
    line = Line()
    for _ in range(3):
        line.gather(LOGGED)
    line.send()
    line.gather()
    assert not line.gathering.may_wait()


def test_what_only_the_turn_of_an_event_loop_gathers_goes_at_its_end_and_not_with_an_answer() -> None:
    line = Line()
    first, second, *_ = line.fill()
    line.gather()
    assert not line.answer(first)
    assert not line.answer(second)


def test_letters_that_waited_are_told_for_once() -> None:
    line = Line()
    first, second, *_ = line.fill()
    line.gather()
    assert line.gathering.may_wait()
    line.send()  # something else was asked, before which they go
    assert not line.answer(first), "nothing waits any more"
    assert not line.answer(second)


def test_what_found_the_queue_of_the_core_full_goes_with_the_next_answer() -> None:
    line = Line()
    first, *_ = line.fill()
    line.has_room = False
    line.gather()
    line.send()
    line.has_room = True
    assert line.answer(first)
    line.send()
    assert line.out == list(range(1, ENOUGH + 2))


def test_a_group_that_fails_gives_the_core_nothing_more_to_do() -> None:
    line = Line()
    for group in line.fill():
        line.gathering.fail(group, ClosedError("closed"))
    assert not line.gathering.may_wait()
    assert line.gathering.unanswered == 0
