"""Runs a case with rtmw on one side, and says what came of it."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from tests.net.hosts import Host
from tests.torture.dds_rtps.cases import Case
from tests.torture.dds_rtps.ends import Place, Reader, ReaderHere, ReaderThere, Seen, Writer, WriterHere, WriterThere
from tests.torture.dds_rtps.roles import NotApplicable, publisher_qos, subscriber_qos

PATIENCE_S = 20.0
"""After so long something has not happened."""
QUIET_S = 1.5
"""For so long nothing may come, where nothing should."""
COLORS = ("BLUE", "RED", "GREEN", "YELLOW")
STEP = 1_000_000
"""Sizes of a writer's messages begin at a multiple of this, and grow by one."""
PUBLISHES, SUBSCRIBES = "publishes", "subscribes"

_THINNED = "`min_interval` is of a topic, and not of each of its instances"
KNOWN = {
    ("Test_DataRepresentation_3", PUBLISHES): "a node sends types that are @final as XCDR1 alone; `info` names it",
    (
        "Test_Reliability_1",
        SUBSCRIBES,
    ): "its node reads the writer, for others here; nothing of it reaches a subscriber "
    "that asks for RELIABLE, and `info` says so",
    ("Test_Deadline_2", SUBSCRIBES): "a node reads writers that promise less; the subscriber watches over its deadline",
    ("Test_Durability_1", SUBSCRIBES): "who asks for kept messages hears writers that keep none, too, as on the bus",
    ("Test_TimeBasedFilter_1", PUBLISHES): _THINNED,
    ("Test_TimeBasedFilter_1", SUBSCRIBES): _THINNED,
}
"""Failures that are so by design, and why."""
OF_FAST = {
    (
        f"Test_Lifespan_{number}",
        PUBLISHES,
    ): "a reader of Fast DDS 2.9 goes by a Lifespan of its own, and not by that of the writer, which a node announces"
    for number in range(8)
}
"""The same, of Fast DDS."""

numbers = count()


class Failed(Exception):
    """The case does not hold; the words say what was seen."""


def run(case: Case, place: Place, role: str) -> str:
    """`pass`, `fail: …` or `n/a: …`. `role`: what rtmw does."""
    topic = f"shapes/{next(numbers)}"
    try:
        _qos_of(case, role)
        _require_peer(case, place)
        _SPECIAL.get(case.outcome, _data)(case, place, role, topic)
    except NotApplicable as reason:
        return f"n/a: {reason}"
    except (Failed, AssertionError) as reason:
        if place.peers[0].said(topic, "refused"):
            return f"n/a: {place.vendor} makes no such endpoint"
        seen, why = str(reason).splitlines()[0], known(case.name, place.vendor, role)
        return f"fail: {seen}; {why}" if why else f"fail: {seen}"
    return "pass"


def known(name: str, vendor: str, role: str) -> str:
    """Why a case fails by design; empty: it should not."""
    of_vendor = OF_FAST if vendor == "fastdds" else {}
    return (KNOWN | of_vendor).get((name, role), "")


def _qos_of(case: Case, role: str) -> None:
    """Raises NotApplicable."""
    publisher_qos(case) if role == PUBLISHES else subscriber_qos(case)


def _require_peer(case: Case, place: Place) -> None:
    if place.vendor == "fastdds" and "xcdr" in case.writer:
        raise NotApplicable("Fast DDS 2.9 has XCDR1 alone, and says nothing of it")


def _until(condition: Callable[[], Any], words: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise Failed(words)
        time.sleep(0.02)


def _writers(case: Case, place: Place, role: str, topic: str) -> list[Writer]:
    if role == PUBLISHES:
        return [WriterHere(place, case, topic) for _ in range(case.writers)]
    return [WriterThere(place, case, topic, number) for number in range(case.writers)]


def _reader(case: Case, place: Place, role: str, topic: str) -> Reader:
    return ReaderThere(place, case, topic) if role == PUBLISHES else ReaderHere(place, case, topic)


def _write(case: Case, writers: list[Writer], number: int) -> None:
    """A message of each instance, or, with several writers, of each writer."""
    if len(writers) > 1:
        for at, writer in enumerate(writers):
            writer.write(COLORS[at % case.colors], at * STEP + number)
        return
    for color in COLORS[: case.colors]:
        writers[0].write(color, number)


def _write_until_all_are_heard(case: Case, writers: list[Writer], reader: Reader) -> int:
    """Writes until the reader has heard each writer; how many of each were written."""
    heard, number = set[int](), 0
    end = time.monotonic() + PATIENCE_S
    while len(heard) < len(writers):
        _write(case, writers, number)
        number += 1
        time.sleep(0.05)
        heard |= {size // STEP for _, size in reader.read()}
        if time.monotonic() > end:
            raise Failed("nothing is heard" if not heard else "only one of two writers is heard")
    return number


def _data(case: Case, place: Place, role: str, topic: str) -> None:
    """data, ordered, complete, both, thinned and lifespan: what comes once the two have met."""
    writers, reader = _writers(case, place, role, topic), _reader(case, place, role, topic)
    try:
        first = _write_until_all_are_heard(case, writers, reader)
        if case.outcome == "thinned":
            time.sleep(case.reader["interval"])
        looks = _write_and_look(case, writers, reader, first)
        if case.outcome == "lifespan":
            _check_lifespan(looks)
        else:
            last = {(color, at * STEP + first + case.count - 1) for at, color in _streams(case)}
            seen = [sample for look in looks for sample in look]
            if case.outcome == "complete":
                _until(lambda: (seen.extend(reader.read()), last <= {*seen})[1], f"the last of {last} do not come")
            _check(case, seen)
    finally:
        for end in (*writers, reader):
            end.close()


def _streams(case: Case) -> list[tuple[int, str]]:
    if case.writers > 1:
        return [(at, COLORS[at % case.colors]) for at in range(case.writers)]
    return [(0, color) for color in COLORS[: case.colors]]


def _write_and_look(case: Case, writers: list[Writer], reader: Reader, first: int) -> list[Seen]:
    """What each look of the reader has found."""
    looks, looked = [reader.read()], time.monotonic()
    for number in range(first, first + case.count):
        due = time.monotonic() + case.period_s
        _write(case, writers, number)
        while time.monotonic() < due:
            if time.monotonic() - looked >= case.read_s:
                looked = time.monotonic()
                looks.append(reader.read())
            time.sleep(min(0.005, case.period_s))
    time.sleep(max(case.read_s, 0.3))
    return [*looks, reader.read()]


def _check(case: Case, seen: Seen) -> None:
    if not seen:
        raise Failed("nothing came")
    streams: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for color, size in seen:
        streams[size // STEP, color].append(size % STEP)
    for (_, color), sizes in streams.items():
        if sizes != sorted(set(sizes)):
            raise Failed(f"{color} came out of order, or twice: {sizes[:20]}")
        if case.outcome == "complete" and sizes != [*range(sizes[0], sizes[0] + len(sizes))]:
            raise Failed(f"some of {color} were lost: {sizes[:20]}")
        if case.outcome == "thinned" and len(sizes) > case.count // 10 + 1:
            raise Failed(f"of {case.count} of {color} {len(sizes)} came")
    if len(streams) < len(_streams(case)):
        raise Failed(f"only {len(streams)} of {len(_streams(case))} instances or writers came")


def _check_lifespan(looks: list[Seen]) -> None:
    """The first look may find what came while the two met, and the last two what is no longer written."""
    for look in looks[2:-2]:
        for color, number in Counter(color for color, _ in look).items():
            if number not in (2, 3):
                raise Failed(f"{number} of {color} were read at a time")
    if not any(looks[2:-2]):
        raise Failed("nothing came")


def is_named(host: Host, topic: str) -> bool:
    """Does the node say that policies keep somebody from the topic?"""
    return any(one["topic"] == topic and one["cause"] == "qos" for one in host.info()["apart"])


def _incompatible(case: Case, place: Place, role: str, topic: str) -> None:
    writers, reader = _writers(case, place, role, topic), _reader(case, place, role, topic)
    peer, host = place.peers[0], place.host
    try:
        _until(lambda: peer.said(topic, "incompatible") or peer.said(topic, "refused"), "the peer is not told")
        if peer.said(topic, "refused"):
            raise NotApplicable(f"{place.vendor} makes no such endpoint")
        _until(lambda: is_named(host, topic), "rtmw node info does not name it")
        _write(case, writers, 0)
        time.sleep(QUIET_S)
        if reader.read():
            raise Failed("a message came all the same")
    finally:
        for end in (*writers, reader):
            end.close()


def _domains(case: Case, place: Place, role: str, topic: str) -> None:
    elsewhere = replace(place, peers=(place.elsewhere, place.elsewhere))
    _hear_nothing(_writers(case, elsewhere, role, topic), _reader(case, elsewhere, role, topic), case)


def _topics(case: Case, place: Place, role: str, topic: str) -> None:
    _hear_nothing(_writers(case, place, role, topic), _reader(case, place, role, f"{topic}/other"), case)


def _hear_nothing(writers: list[Writer], reader: Reader, case: Case) -> None:
    try:
        end = time.monotonic() + QUIET_S
        while time.monotonic() < end:
            _write(case, writers, 0)
            if reader.read():
                raise Failed("a message came all the same")
            time.sleep(0.1)
    finally:
        for one in (*writers, reader):
            one.close()


def _late(case: Case, place: Place, role: str, topic: str) -> None:
    """late and kept: the reader comes after messages were written."""
    writers = _writers(case, place, role, topic)
    time.sleep(0.5)
    for number in range(case.count):
        _write(case, writers, number)
    time.sleep(0.5)
    reader = _reader(case, place, role, topic)
    try:
        seen, number, end = Seen(), case.count, time.monotonic() + PATIENCE_S
        while not any(size >= case.count for _, size in seen):
            _write(case, writers, number)
            number += 1
            time.sleep(0.05)
            seen += reader.read()
            if time.monotonic() > end:
                raise Failed("nothing new comes")
        _check(case, seen)
        old = [size for _, size in seen if size < case.count]
        if case.outcome == "kept" and old != [*range(case.count)]:
            raise Failed(f"of {case.count} that are kept {len(old)} came")
        if case.outcome == "late" and old:
            raise Failed(f"{len(old)} old ones came")
    finally:
        for one in (*writers, reader):
            one.close()


def _deadline(case: Case, place: Place, role: str, topic: str) -> None:
    writers, reader = _writers(case, place, role, topic), _reader(case, place, role, topic)
    try:
        _write_until_all_are_heard(case, writers, reader)
        _until(reader.is_told_of_deadline, "the reader is not told")
    finally:
        for one in (*writers, reader):
            one.close()


def _instances(case: Case, place: Place, role: str, topic: str) -> None:
    """Only counted: see roles.py."""
    raise NotApplicable("rtmw has no instances")


_SPECIAL: dict[str, Callable[[Case, Place, str, str], None]] = {
    "incompatible": _incompatible,
    "topics": _topics,
    "domains": _domains,
    "late": _late,
    "kept": _late,
    "deadline": _deadline,
    "instances": _instances,
}
