"""Letters that go out together: what is asked, what is answered, and what is asked again."""

from __future__ import annotations

import gc

import pytest

from rtmw.errors import ClosedError
from rtmw.transfer.address import Address, Life
from rtmw.transfer.client.group import MOST_LETTERS, Group, Groups
from rtmw.transfer.errors import TransferError, TransferRefused
from rtmw.transfer.header import Header, Kind, Level
from rtmw.transfer.messages import Accepted, Failed, Move, Run, Sends
from rtmw.transfer.records import TransferId, TransferState

LIFE = Life(4711, 1000, 1)
SHORT, LONG, LARGE = (Header(Address.parse("ingest"), Kind.BUF, size) for size in (1, 2, 4095))
OWN, FAR = (Header(Address.parse(f"ingest@{node}"), Kind.BUF, 1) for node in ("plant", "hub"))


def id_of(sequence: int) -> TransferId:
    return TransferId("plant", 77, sequence)


class Sender:
    """As its groups see it."""

    def __init__(self) -> None:
        self._life, self._groups, self._node = LIFE, Groups(), "plant"
        self.out: list[tuple[int, int]] = []
        self.wrong: list[str] = []

    def _went_out(self, letters: int, size: int) -> None:
        self.out.append((letters, size))

    def _went_wrong(self, error: Exception) -> None:
        self.wrong.append(str(error))


def group_of(sender: Sender, *headers: Header, number: int = 1) -> Group:
    group = Group(sender, LIFE)
    for at, header in enumerate(headers):
        group.add(header, b"%0*d" % (header.length, at))
    group.number_from(number)
    return group


def test_letters_with_one_header_are_a_run_and_their_numbers_follow_one_after_the_other() -> None:
    sender = Sender()
    group = group_of(sender, SHORT, SHORT, LONG, SHORT, number=10)
    assert list(group.requests()) == [
        (10, Sends((Run(SHORT, (b"0", b"1")), Run(LONG, (b"02",)), Run(SHORT, (b"3",))))),
    ]
    assert sender.out == [(4, 5)]
    assert [number for number in range(20) if group.has(number)] == [10, 11, 12, 13]


def test_an_answer_for_all_gives_each_letter_its_id() -> None:
    group = group_of(Sender(), SHORT, SHORT, SHORT)
    group.take(1, Accepted(3, (id_of(5),)))
    assert group.is_done
    accepted = TransferState.ACCEPTED, Level.SENT, ""
    assert [group.state_of(index) for index in range(3)] == [(id_of(5 + n), *accepted) for n in range(3)]


def test_only_letters_without_an_answer_are_asked_for_again() -> None:
    group = group_of(Sender(), *[SHORT] * 6)
    group.take(2, Accepted(2, (id_of(5),)))
    group.take(5, Failed(0, "no room"))
    assert [(number, message.runs[0].bodies) for number, message in group.requests() if isinstance(message, Sends)] == [
        (1, (b"0",)),
        (4, (b"3",)),
        (6, (b"5",)),
    ]
    assert group.left == 3


def test_an_answer_that_comes_again_changes_nothing() -> None:
    group = group_of(Sender(), SHORT, SHORT)
    group.take(1, Accepted(1, (id_of(5),)))
    group.told(0, Move((id_of(5),), TransferState.CONSUMED, ""))
    for message in (Accepted(2, (id_of(9),)), Accepted(1, ()), Failed(0, "no")):
        group.take(1, message)
    assert group.left == 1
    assert group.state_of(0) == (id_of(5), TransferState.CONSUMED, Level.CONSUMED, "")


def test_an_answer_for_more_letters_than_there_are_ends_with_the_last_one() -> None:
    group = group_of(Sender(), SHORT, SHORT)
    group.take(2, Accepted(9, (id_of(5),)))
    assert (group.left, group.is_answered(0), group.is_answered(1)) == (1, False, True)


def test_a_letter_that_was_refused_says_why_and_so_does_its_sender() -> None:
    sender = Sender()
    group = group_of(sender, SHORT, SHORT)
    group.take(1, Failed(0, "no room"))
    group.take(2, Accepted(1, ()))
    first, second = group.error_of(0), group.error_of(1)
    assert isinstance(first, TransferRefused)
    assert isinstance(second, TransferError)
    assert [str(first), str(second)] == sender.wrong
    assert group.state_of(0) is None


def test_letters_of_a_line_that_ends_fail_unless_they_were_answered() -> None:
    sender = Sender()
    group = group_of(sender, SHORT, SHORT)
    group.take(1, Accepted(1, (id_of(5),)))
    unsent = Group(sender, LIFE)
    unsent.add(SHORT, b"x")
    for one in (group, unsent):
        one.fail(ClosedError("closed"))
    assert group.error_of(0) is None
    assert isinstance(group.error_of(1), ClosedError)
    assert isinstance(unsent.error_of(0), ClosedError)
    assert not list(group.requests())
    assert not list(unsent.requests())


def test_a_letter_is_found_by_its_id_for_as_long_as_its_group_is_kept() -> None:
    sender = Sender()
    first, second = group_of(sender, SHORT, SHORT), group_of(sender, SHORT, SHORT, number=3)
    second.take(3, Accepted(2, (id_of(12),)))
    first.take(1, Accepted(2, (id_of(10),)))
    assert sender._groups.find(id_of(11)) == (first, 1)
    assert sender._groups.find(id_of(12)) == (second, 0)
    assert sender._groups.going() == [id_of(sequence) for sequence in range(10, 14)]
    for absent in (id_of(9), id_of(14), TransferId("other", 77, 10), TransferId("plant", 78, 10)):
        assert sender._groups.find(absent) is None
    del first
    gc.collect()
    assert sender._groups.find(id_of(11)) is None
    assert sender._groups.going() == [id_of(12), id_of(13)]


def test_groups_that_nobody_keeps_take_no_memory() -> None:
    sender = Sender()
    for sequence in range(10_000):
        group_of(sender, SHORT).take(1, Accepted(1, (id_of(sequence),)))
    ((firsts, groups),) = sender._groups._runs.values()
    assert len(firsts) == len(groups) < 200


@pytest.mark.parametrize("state", [TransferState.REFUSED, TransferState.DEAD])
def test_a_letter_that_has_moved_has_the_level_that_it_had_reached(state: TransferState) -> None:
    group = group_of(Sender(), SHORT)
    group.take(1, Accepted(1, (id_of(5),)))
    group.told(0, Move((id_of(5),), TransferState.DELIVERED, ""))
    group.told(0, Move((id_of(5),), state, "why"))
    assert group.state_of(0) == (id_of(5), state, Level.DELIVERED, "why")


@pytest.mark.parametrize("state", [TransferState.DELIVERED, TransferState.CONSUMED, TransferState.REFUSED])
def test_a_letter_is_over_when_it_has_reached_the_level_or_never_will(state: TransferState) -> None:
    group = group_of(Sender(), SHORT, SHORT)
    assert not group.is_over(0, Level.ACCEPTED)
    group.take(1, Accepted(1, (id_of(5),)))
    assert [group.is_over(0, level) for level in (Level.ACCEPTED, Level.SENT, Level.DELIVERED)] == [True, True, False]
    group.told(0, Move((id_of(5),), state, ""))
    assert group.is_over(0, Level.DELIVERED)
    group.take(2, Failed(0, "no room"))
    assert group.is_over(1, Level.ACCEPTED)


def test_what_a_dead_core_has_told_of_an_end_holds_when_the_next_one_does_not_know() -> None:
    group = group_of(Sender(), SHORT)
    group.take(1, Accepted(1, (id_of(5),)))
    group.told(0, Move((id_of(5),), TransferState.CONSUMED, ""))
    group.told(0, Move((id_of(5),), TransferState.UNKNOWN, ""))
    found = group.state_of(0)
    assert found is not None
    assert found[1] is TransferState.CONSUMED


def test_a_group_is_full_by_its_letters_or_by_their_bytes() -> None:
    few, large = Group(Sender(), LIFE), Group(Sender(), LIFE)
    for _ in range(MOST_LETTERS):
        assert few.left < few.full_at
        few.add(SHORT, b"x")
    assert few.left == few.full_at
    large.add(SHORT, b"x")
    for _ in range(17):
        assert large.left < large.full_at
        large.add(LARGE, bytes(LARGE.length))
    assert large.left == large.full_at


def test_what_is_accepted_is_sent_unless_it_is_for_another_node() -> None:
    group = group_of(Sender(), SHORT, FAR, OWN, FAR)
    group.take(1, Accepted(4, (id_of(5),)))
    assert group.lowest == Level.ACCEPTED
    assert [group.is_over(index, Level.ACCEPTED) for index in range(4)] == [True] * 4
    assert [group.is_over(index, Level.SENT) for index in range(4)] == [True, False, True, False]
    group.told(3, Move((id_of(8),), TransferState.SENT, ""))
    assert [group.is_over(index, Level.SENT) for index in range(4)] == [True, False, True, True]


def test_a_run_has_a_place_for_each_of_its_letters() -> None:
    group = Group(Sender(), LIFE)
    for header, bodies in ((SHORT, (b"0", b"1")), (FAR, (b"2", b"3"))):
        group.add_run(header, bodies)
    assert (group.left, group.number_from(10), group.bytes) == (4, 14, 4)
    assert list(group.requests()) == [(10, Sends((Run(SHORT, (b"0", b"1")), Run(FAR, (b"2", b"3")))))]
    group.take(10, Accepted(4, (id_of(5),)))
    assert [group.is_over(index, Level.SENT) for index in range(4)] == [True, True, False, False]


def test_all_letters_are_over_when_each_has_reached_the_level_or_never_will() -> None:
    group = group_of(Sender(), SHORT, SHORT)
    group.take(1, Accepted(1, (id_of(5),)))
    assert not group.all_over(Level.ACCEPTED)
    group.take(2, Failed(0, "no room"))
    assert [group.all_over(Level.ACCEPTED), group.all_reached(Level.ACCEPTED)] == [True, False]
    assert not group.all_over(Level.DELIVERED)
    group.told(0, Move((id_of(5),), TransferState.DELIVERED, ""))
    assert [group.all_over(Level.DELIVERED), group.all_reached(Level.DELIVERED)] == [True, False]


def test_all_letters_have_reached_what_the_last_of_them_has_reached() -> None:
    group = group_of(Sender(), SHORT, SHORT)
    group.take(1, Accepted(2, (id_of(5),)))
    assert group.all_reached(Level.SENT)
    assert group.lowest == Level.SENT
    for index in range(2):
        assert not group.all_over(Level.CONSUMED)
        group.told(index, Move((id_of(5 + index),), TransferState.CONSUMED, ""))
    assert group.all_reached(Level.CONSUMED)
