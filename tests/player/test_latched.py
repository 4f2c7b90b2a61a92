"""What was valid at the moment from which a replay plays comes first; what a recorder carried over comes once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rtmw
from tests.recordings import MS, SECOND, Maker

pytestmark = pytest.mark.usefixtures("domain")

CARRIED = 1


def played(source: Any, *topics: str, **options: Any) -> list[list[bytes]]:
    """What subscribers of these topics get."""
    subscribers = [rtmw.Subscriber(topic, depth=1000) for topic in topics]
    with rtmw.Replay(source, rate=None, **options) as replay:
        replay.run()
    found = [[sample.value for sample in iter(subscriber.take, None)] for subscriber in subscribers]
    for subscriber in subscribers:
        subscriber.close()
    return found


def test_the_last_message_before_the_start_comes_first_where_history_was_kept(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap", chunk_bytes=1) as maker:
        kept, plain = maker.channel("kept", history=1), maker.channel("plain")
        for number in range(6):
            maker.write(kept if number < 3 else plain, number * SECOND, bytes([number]))
    assert played(maker.path, "kept", "plain", start=4.0) == [[b"\x02"], [b"\x04", b"\x05"]]
    assert played(maker.path, "kept", "plain", start=1.0)[0] == [b"\x00", b"\x01", b"\x02"]


def test_a_seek_brings_the_kept_message_from_before(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("kept", history=1), 0, b"old")
        maker.write(maker.channel("plain"), 3600 * SECOND, b"new")
    with rtmw.Subscriber("kept") as kept, rtmw.Subscriber("plain") as plain:
        with rtmw.Replay(maker.path) as replay:
            replay.seek(3600.0)
            replay.run()
        assert kept.receive(60).value == b"old"
        assert plain.receive(60).value == b"new"


@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20])
def test_as_many_come_as_were_kept_in_their_order(tmp_path: Path, chunk_bytes: int) -> None:
    with Maker(tmp_path / "a.mcap", chunk_bytes=chunk_bytes) as maker:
        kept = maker.channel("kept", history=3)
        for number in range(10):
            maker.write(kept, number * MS, bytes([number]))
    assert played(maker.path, "kept", start=1.0) == [[b"\x07", b"\x08", b"\x09"]]


def test_a_kept_message_that_has_expired_by_the_start_does_not_come(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        kept = maker.channel("kept", history=2)
        maker.write(kept, 0, b"long", left=60 * SECOND)
        maker.write(kept, 1, b"short", left=SECOND)
    assert played(maker.path, "kept", start=10.0) == [[b"long"]]


def test_the_history_that_is_wanted_instead_counts(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("kept", history=1), 0, b"kept")
        maker.write(maker.channel("plain"), 0, b"plain")
    wanted: Any = {"kept": {"history": 0}, "plain": {"history": 1}}
    assert played(maker.path, "kept", "plain", start=1.0, qos=wanted) == [[], [b"plain"]]


def split(folder: Path) -> tuple[Path, Path]:
    """Two files of one recording; the second begins with what was carried over from the first."""
    with Maker(folder / "1.mcap") as first:
        kept, plain = first.channel("kept", history=1), first.channel("plain")
        first.write(kept, 0, b"map")
        first.write(plain, SECOND, b"one")
    with Maker(folder / "2.mcap") as second:
        kept, plain = second.channel("kept", history=1), second.channel("plain")
        second.write(kept, 2 * SECOND, b"map", published=0, sequence=1, flags=CARRIED)
        second.write(plain, 3 * SECOND, b"two")
        second.write(kept, 4 * SECOND, b"new map")
    return first.path, second.path


def test_what_was_carried_into_the_next_file_comes_once(tmp_path: Path) -> None:
    assert played(split(tmp_path), "kept", "plain") == [[b"map", b"new map"], [b"one", b"two"]]


def test_a_later_file_alone_begins_with_what_was_carried_into_it(tmp_path: Path) -> None:
    assert played(split(tmp_path)[1], "kept", "plain") == [[b"map", b"new map"], [b"two"]]


def test_a_start_in_the_first_file_brings_what_was_kept_and_not_again_what_was_carried(tmp_path: Path) -> None:
    assert played(split(tmp_path), "kept", "plain", start=0.5) == [[b"map", b"new map"], [b"one", b"two"]]


def test_a_start_in_the_second_file_brings_what_was_kept_once(tmp_path: Path) -> None:
    assert played(split(tmp_path), "kept", "plain", start=2.5) == [[b"map", b"new map"], [b"two"]]


def test_each_round_of_a_loop_begins_with_it(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("kept", history=1), 0, b"map")
        maker.write(maker.channel("plain"), SECOND, b"x")
    got: list[bytes] = []
    with rtmw.Subscriber("kept", depth=1000) as kept, rtmw.Replay(maker.path, start=1.0, loop=True, rate=1.0) as replay:
        replay.play()
        while len(got) < 3:
            got.append(kept.receive(60).value)
    assert got == [b"map"] * 3
