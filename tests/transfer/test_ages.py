"""Ages of transfers by their numbers: marks of a bounded number say when a number was the last one."""

from __future__ import annotations

from rtmw.transfer.store import MARKS_MOST, Ages

S = 1_000_000_000


def test_a_transfer_came_after_the_last_mark_below_its_number() -> None:
    ages = Ages()
    for second, number in enumerate((10, 10, 20, 35)):
        ages.note(number, second * S)
    assert [ages.since(number) // S for number in (11, 20, 21, 35, 36)] == [1, 1, 2, 2, 3]


def test_while_nothing_comes_the_last_mark_goes_on_so_an_idle_store_makes_nothing_old() -> None:
    ages = Ages()
    ages.note(10, 0)
    for minute in range(1000):
        ages.note(10, minute * 60 * S)
    assert (len(ages), ages.since(11) // S) == (1, 999 * 60)


def test_what_is_older_than_all_marks_is_as_old_as_the_first_at_least() -> None:
    ages = Ages()
    assert ages.since(5) == 0
    ages.note(10, 7 * S)
    assert ages.since(5) == 7 * S


# Proves G192.
def test_an_age_is_right_to_a_second_or_a_hundredth_of_itself_after_a_month_of_marks_that_are_few() -> None:
    day, end = 86400, 30 * 86400
    ages = Ages()
    for second in (*range(0, end - 2 * day, 600), *range(end - 2 * day, end, 10)):
        ages.note(second, second * S)
    assert len(ages) == MARKS_MOST
    for age in (10, 60, 600, 3600, day, 20 * day):
        found = end - 10 - ages.since(end - 10 - age + 1) / S
        assert age <= found + 10 <= age * 1.05 + 30, (age, found)


def test_marks_are_read_as_they_were_written_up_to_the_last_number_that_there_is() -> None:
    ages = Ages()
    for second in range(5):
        ages.note(10 * second, second * S)
    again = Ages.unpack(ages.pack(), 25)
    assert [again.since(number) // S for number in (1, 11, 21, 99)] == [0, 1, 2, 2]


def test_what_is_no_file_of_marks_says_nothing() -> None:
    for data in (b"", b"[[1", b"7", b'{"a": 1}', b'[["a", 2]]', b"[1]", b"[" * 100_000, b"\xff"):
        assert len(Ages.unpack(data, 99)) == 0, data
