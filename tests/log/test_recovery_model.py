"""Which rules the recovery of a log needs, tried on a model of every power cut; rtmw/log/recover.c has these rules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.log.recovery_model import CELLS, RULES, TRIM_RULES, Damage, Disk, Log, Record, Steps

BATCHES = ((2, 1, 2, 1), (1, 2, 2, 1))
"""The second fills a segment, the third needs another one."""
AGAIN = (1, 2)


class Wrong(Exception):
    """A record is lost or invented, or a good log refused."""


def run(steps: Steps) -> Iterator[tuple[Disk, int]]:
    """Each disk on the way, and the last one."""
    while True:
        try:
            yield next(steps)
        except StopIteration:
            return


def ends(disk: Disk) -> Iterator[Disk]:
    """The process ends here, or the power is cut."""
    yield disk
    yield from disk.cuts()


def recovered(disk: Disk, life: int, without: str) -> Log:
    log = Log(disk, life, without)
    try:
        for _ in run(log.recover()):
            pass
    except Damage as error:
        raise Wrong(f"refused: {error}") from error
    return log


def check(log: Log, appended: list[Record], answered: int) -> None:
    found = log.records()
    if found != appended[: len(found)]:
        raise Wrong(f"{found} was never appended in this order")
    if len(found) < answered:
        raise Wrong(f"answered up to {answered}, and there is {len(found)}")
    if found and found[-1].more:
        raise Wrong(f"half a batch: {found[-1]}")


def second_life(first: Log, disk: Disk, answered: int) -> Iterator[tuple[Disk, list[Record], int]]:
    """What a second writer does with a disk that the first one has left, step by step: its disk, what was appended in
    all, what was answered."""
    before = list(first.appended)
    log = Log(disk, 2, first.without, first.marks_all)
    try:
        for to_write in (False, True):  # somebody reads, then somebody writes
            for now, shown in run(log.recover(to_write)):
                answered = max(answered, shown)
                yield now, before, answered
    except Damage as error:
        raise Wrong(f"refused: {error}") from error
    check(log, before, answered)
    kept = log.records()
    for count in AGAIN:
        for now, shown in run(log.append(count)):
            yield now, kept + log.appended, shown


def try_all(without: str = "") -> int:
    """The number of disks that were recovered. Raises Wrong."""
    return sum(try_batches(batches, without, marks_all) for batches in BATCHES for marks_all in (True, False))


def try_batches(batches: tuple[int, ...], without: str, marks_all: bool) -> int:
    log = Log(Disk(), 1, without, marks_all)
    log.create()
    for to_write in (False, True):
        for _ in run(log.recover(to_write)):
            pass
    seen: set[tuple[Disk, int]] = set()
    final: set[tuple[Disk, int, int]] = set()
    for count in batches:
        for disk, answered in run(log.append(count)):
            for first in ends(disk):
                if (first, answered) in seen:
                    continue
                seen.add((first, answered))
                for now, appended, shown in second_life(log, first, answered):
                    for second in ends(now):
                        state = (second, shown, hash(tuple(appended)))
                        if state not in final:
                            final.add(state)
                            check(recovered(second, 3, without), appended, shown)
    return len(seen) + len(final)


# Proves G117.
def test_no_power_cut_and_no_end_of_a_process_loses_or_invents_a_record() -> None:
    assert try_all() > 1000


@pytest.mark.parametrize("rule", RULES)
# Proves G131.
def test_without_any_one_of_the_rules_a_cut_does_harm(rule: str) -> None:
    with pytest.raises(Wrong):
        try_all(without=rule)


def try_trim(without: str = "") -> int:
    """A log of three segments is trimmed, twice. The number of disks that were recovered. Raises Wrong."""
    log, seen = Log(Disk(), 1, without), 0
    log.create()
    for count in (3, 3, 1):
        for _ in run(log.append(count)):
            pass
    answered = 0
    for start in (CELLS, 2 * CELLS):
        for disk, end in run(log.trim(start)):
            for after in ends(disk):
                again = recovered(after, 2, without)
                seen += 1
                if not answered <= again.start <= start:
                    raise Wrong(f"trimmed up to {start}, and the log begins at {again.start}")
                if again.end < end or again.records() != log.appended[again.start : again.end]:
                    raise Wrong(f"from {again.start} on there is {again.records()}")
        answered = start
    return seen


# Proves G121.
def test_a_trim_that_is_cut_at_any_step_loses_only_what_was_to_go() -> None:
    assert try_trim() > 100


@pytest.mark.parametrize("rule", TRIM_RULES)
def test_without_any_one_of_the_rules_of_trimming_a_cut_does_harm(rule: str) -> None:
    with pytest.raises(Wrong):
        try_trim(without=rule)


def test_a_bad_record_below_the_watermark_is_damage_and_no_torn_tail() -> None:
    log = Log(Disk(), 1)
    log.create()
    for _ in run(log.append(1)):
        pass
    for _ in run(log.append(1)):
        pass
    rotten = log.disk.write((0, "cell", 0), "torn").sync(0)
    with pytest.raises(Damage, match="bad record at 0, durable up to 1"):
        list(run(Log(rotten, 2).recover()))
