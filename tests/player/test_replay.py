"""Replay: what a recording holds flows again, each message at its time, with its QoS."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct, types

import rtmw
from tests.books import assert_usable, examine
from tests.child import Spawn
from tests.recordings import BEGIN_NS, MS, SECOND, Maker, numbered

pytestmark = pytest.mark.usefixtures("domain")

PATIENCE = 60.0


@dataclass
class Speed(IdlStruct, typename="plant.Speed"):
    pump: types.int32
    rpm: types.float64


def listener(topic: str, type: Any = bytes, **options: Any) -> rtmw.Subscriber[Any]:
    return rtmw.Subscriber(topic, type, **{"depth": 4096, **options})


def values(subscriber: rtmw.Subscriber[Any]) -> list[Any]:
    """All that has come, as numbers where it is bytes."""
    found = [sample.value for sample in iter(subscriber.take, None)]
    return [int.from_bytes(value, "little") if isinstance(value, bytes) else value for value in found]


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


LEAVING = """
import os, rtmw
replay = rtmw.Replay({path!r}, domain=int(os.environ["RTMW_DOMAIN"]))
print("in")
input()
replay.close()
print("out")
input()
"""


def test_told_a_number_it_leaves_the_domain_at_its_end(domain: rtmw.Domain, spawn: Spawn, tmp_path: Path) -> None:
    child = spawn(LEAVING.format(path=str(numbered(tmp_path / "a.mcap", ["a"], 3))))
    assert child.line(PATIENCE) == "in"
    assert child.pid in {view.pid for view in examine(domain).participants}
    child.send()
    assert child.line(PATIENCE) == "out"
    assert child.pid not in {view.pid for view in examine(domain).participants}


def test_a_domain_that_it_was_given_stays_open(domain: rtmw.Domain, tmp_path: Path) -> None:
    rtmw.Replay(numbered(tmp_path / "a.mcap", ["a"], 3), domain=domain).close()
    assert_usable(domain)


def test_all_messages_of_all_topics_come_in_order(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["even", "odd"], 200, apart_ns=100_000)
    with listener("even") as even, listener("odd") as odd, rtmw.Replay(path) as replay:
        stats = replay.run()
        assert values(even) == list(range(0, 200, 2))
        assert values(odd) == list(range(1, 200, 2))
    assert (stats.published, stats.bytes, stats.lateness.count) == (200, 1600, 200)
    assert stats.topics["even"].subscribers == 1
    assert sum(stats.dropped.values()) == 0


def test_the_time_between_messages_is_that_of_the_recording(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 2, apart_ns=200 * MS)
    with rtmw.Replay(path, rate=1.0) as replay:
        began = time.monotonic()
        replay.run()
        assert time.monotonic() - began >= 0.2


def test_at_the_speed_of_its_readers_nothing_is_lost_though_their_queues_are_short(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 3000, apart_ns=SECOND)
    got: list[int] = []
    reliable = rtmw.Reliability.RELIABLE
    with listener("t", depth=8, reliability=reliable) as taker, rtmw.Replay(path, rate=None) as replay:
        replay.play()
        end = time.monotonic() + PATIENCE
        while len(got) < 3000 and time.monotonic() < end:
            got += values(taker)
        assert replay.wait(PATIENCE)
    assert got == list(range(3000))


def test_start_and_end_choose_what_lies_between_start_included_and_end_not(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 10, apart_ns=SECOND)
    end = datetime.fromtimestamp(BEGIN_NS / 1e9 + 7, UTC)
    with listener("t") as taker, rtmw.Replay(path, start=3.0, end=end, rate=1000.0) as replay:
        replay.run()
        assert values(taker) == [3, 4, 5, 6]


def test_a_time_without_a_zone_is_utc_wherever_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 10, apart_ns=SECOND)
    moment = datetime.fromtimestamp(BEGIN_NS / 1e9 + 7, UTC)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        with rtmw.Replay(path, start=moment.replace(tzinfo=None)) as replay:
            assert replay.position == 7.0
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_seek_goes_on_from_there_and_the_position_says_so(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 10, apart_ns=3600 * SECOND)
    with listener("t") as taker, rtmw.Replay(path) as replay:
        replay.play()
        wait_until(lambda: replay.stats().published == 1)
        replay.seek(8 * 3600)
        assert replay.position == pytest.approx(8 * 3600, abs=3600)
        wait_until(lambda: replay.stats().published == 2)
        replay.rate = 1e6
        assert replay.wait(PATIENCE)
        assert values(taker) == [0, 8, 9]


def test_a_replay_that_is_over_can_be_played_again(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 3)
    with listener("t") as taker, rtmw.Replay(path) as replay:
        replay.run()
        replay.run()
        assert values(taker) == [0, 1, 2, 0, 1, 2]


def test_a_loop_begins_again_and_again_until_it_is_closed(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 3)
    with listener("t") as taker, rtmw.Replay(path, loop=True) as replay:
        replay.play()
        wait_until(lambda: replay.stats().published >= 8)
        assert not replay.wait(0.0)
        assert values(taker)[:8] == [0, 1, 2, 0, 1, 2, 0, 1]


def test_a_pause_stops_it_at_once_and_a_step_plays_one_message(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 5, apart_ns=3600 * SECOND)
    with listener("t") as taker, rtmw.Replay(path) as replay:
        replay.play()
        wait_until(lambda: replay.stats().published == 1)
        replay.pause()
        assert replay.paused
        replay.step()
        wait_until(lambda: replay.stats().published == 2)
        assert replay.position == 3600.0
        replay.rate = None
        replay.resume()
        assert replay.wait(PATIENCE)
        assert values(taker) == [0, 1, 2, 3, 4]


def test_topics_are_chosen_by_name_or_pattern_and_renamed(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["pump/a", "pump/b", "river"], 6)
    with listener("other") as other, listener("pump/b") as second, listener("river") as river:
        with rtmw.Replay(path, topics=["pump/*"], remap={"pump/a": "other"}) as replay:
            assert replay.topics == ("other", "pump/b")
            replay.run()
        assert (values(other), values(second), values(river)) == ([0, 3], [1, 4], [])


@pytest.mark.parametrize("wrong", [{"topics": ["pump"]}, {"remap": {"pump": "x"}}, {"qos": {"pump": {}}}])
def test_a_topic_that_the_recording_does_not_have_is_named_with_one_that_it_has(tmp_path: Path, wrong: Any) -> None:
    path = numbered(tmp_path / "a.mcap", ["pump/a"], 1)
    with pytest.raises(rtmw.RtmwError, match="did you mean pump/a"):
        rtmw.Replay(path, **wrong)


def test_one_topic_gets_another_name_and_not_all_that_a_pattern_means(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["pump/a", "pump/b"], 2)
    with pytest.raises(rtmw.RtmwError, match=r"has no topic pump/\*"):
        rtmw.Replay(path, remap={"pump/*": "x"})


def test_topics_of_rtmw_itself_are_played_only_if_they_are_named(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["rtmw/node", "t"], 2)
    with rtmw.Replay(path) as replay:
        assert replay.topics == ("t",)
    with rtmw.Replay(path, topics="rtmw/node") as replay:
        assert replay.topics == ("rtmw/node",)


def test_source_times_are_the_recorded_ones_unless_fresh_ones_are_wanted(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("t"), 2 * MS, b"", published=MS)
    before = time.time_ns()
    with listener("t") as taker:
        for stamps in ("original", "fresh"):
            with rtmw.Replay(maker.path, stamps=stamps) as replay:
                replay.run()
        assert taker.receive(PATIENCE).source_time_ns == BEGIN_NS + MS
        assert taker.receive(PATIENCE).source_time_ns >= before - SECOND


def test_each_message_keeps_its_priority(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        channel = maker.channel("t", priority=2)
        for number, priority in enumerate((2, 7, 0)):
            maker.write(channel, number, bytes([number]), priority=priority)
    with listener("t") as taker, rtmw.Replay(maker.path) as replay:
        replay.run()
        assert [(s.value[0], s.priority) for s in iter(taker.take, None)] == [(1, 7), (0, 2), (2, 0)]


def test_what_was_left_of_a_lifetime_counts_from_the_replay(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        channel = maker.channel("t", lifetime_ns=7200 * SECOND)
        maker.write(channel, 0, b"one", left=3600 * SECOND)
        maker.write(channel, 1, b"two", left=-1)
        maker.write(channel, 2, b"three")
    before = time.time_ns()
    with listener("t") as taker, rtmw.Replay(maker.path) as replay:
        stats = replay.run()
        after = time.time_ns()
        first, third = taker.receive(PATIENCE), taker.receive(PATIENCE)
        assert first.expires_ns is not None
        assert before - SECOND <= first.expires_ns - 3600 * SECOND <= after + SECOND
        assert third.value == b"three"
        assert third.expires_ns is not None
        assert third.expires_ns > after + 10**9 * 86400 * 365
    assert stats.dropped["expired"] == 1


def test_qos_is_the_recorded_one(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        channel = maker.channel("t", reliability="RELIABLE", history=2)
        for number in range(5):
            maker.write(channel, number, bytes([number]))
    with rtmw.Replay(maker.path) as replay:
        replay.run()
        with listener("t", history=9, reliability=rtmw.Reliability.RELIABLE) as late:
            assert values(late)[-2:] == [3, 4]


def test_qos_can_be_another_one_than_the_recorded(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        channel = maker.channel("t", reliability="TIMELY", priority=3)
        maker.write(channel, 0, b"x", priority=3, left=1)
    wanted: Any = {"t": {"reliability": rtmw.Reliability.RELIABLE}, "*": {"priority": 6, "lifetime": None}}
    with listener("t", reliability=rtmw.Reliability.RELIABLE) as taker, rtmw.Replay(maker.path, qos=wanted) as replay:
        replay.run()
        sample = taker.receive(PATIENCE)
        assert (sample.priority, sample.expires_ns) == (6, None)


@pytest.mark.parametrize(
    "beside",
    [
        {"start": 9.5},
        {"start": datetime(2030, 1, 1, tzinfo=UTC)},
        {"start": datetime(2020, 1, 1, tzinfo=UTC), "end": datetime(2021, 1, 1, tzinfo=UTC)},
        {"end": 0.0},
    ],
    ids=["start", "start by date", "end by date", "end"],
)
def test_a_start_or_end_beside_the_recording_is_refused_with_its_time(tmp_path: Path, beside: Any) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 10, apart_ns=SECOND)
    with pytest.raises(ValueError, match=r"has no message: the recording began at 2023-11-14 22:13:20 and is 9 s long"):
        rtmw.Replay(path, **beside)
    rtmw.Replay(path, start=9.0, end=datetime(2030, 1, 1, tzinfo=UTC)).close()
    rtmw.Replay(numbered(tmp_path / "none.mcap", ["t"], 0), start=0.5).close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 0.0},
        {"rate": -1.0},
        {"start": -1.0},
        {"end": float("nan")},
        {"start": 2.0, "end": 1.0},
        {"stamps": "new"},
        {"max_blocking": -1.0},
        {"spin": -1.0},
        {"qos": {"t": {"spin": 1.0}}},
        {"qos": {"t": {"priority": 8}}},
        {"qos": {"t": {"depth": 0}}},
        {"qos": {"t": {"lifetime": 0.0}}},
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, wrong: Any) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 1)
    with pytest.raises(ValueError, match=r"not possible|no moment|a replay can change|does not exist"):
        rtmw.Replay(path, **wrong)


def test_typed_messages_are_decoded_with_their_class_and_without(tmp_path: Path) -> None:
    encode = rtmw.types.resolve(Speed).encode
    assert encode is not None
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("pump", Speed), 0, encode(Speed(3, 2.5)))
        maker.write(maker.channel("wave", np.dtype("f4")), 1, np.array([1, 2], "f4").tobytes())
    with listener("pump", Speed) as typed, listener("pump", rtmw.ANY) as any, listener("wave", np.dtype("f4")) as wave:
        with rtmw.Replay(maker.path) as replay:
            replay.run()
        assert typed.receive(PATIENCE).value == Speed(3, 2.5)
        assert any.receive(PATIENCE).value.rpm == 2.5
        assert wave.receive(PATIENCE).value.tolist() == [1.0, 2.0]


def test_what_cannot_be_played_is_listed_with_the_reason_and_the_rest_is_played(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        schema = maker.writer.schema("Pump", "jsonschema", b"{}")
        maker.write(maker.writer.channel("plan", schema, "json"), 0, b"{}")
        maker.write(maker.channel("t"), 1, b"x")
    with rtmw.Replay(maker.path) as replay:
        assert replay.topics == ("t",)
        assert list(replay.skipped) == ["plan"]
        assert "json" in replay.skipped["plan"]
        assert replay.run().published == 1


def test_a_topic_whose_type_changed_is_played_with_both(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("t"), 0, b"bytes")
        maker.write(maker.channel("t", np.dtype("u1")), 1, b"\x07")
    with listener("t", rtmw.ANY) as taker, rtmw.Replay(maker.path) as replay:
        assert replay.topics == ("t",)
        assert replay.run().topics["t"].published == 2
        assert taker.receive(PATIENCE).value == b"bytes"
        assert taker.receive(PATIENCE).value.tolist() == [7]


def test_several_files_are_played_as_one_in_the_order_of_their_times(tmp_path: Path) -> None:
    for name, numbers in (("a.mcap", (0, 2, 5)), ("b.mcap", (1, 3, 4))):
        with Maker(tmp_path / name, chunk_bytes=1) as maker:
            for number in numbers:
                maker.write(maker.channel("t"), number * MS, bytes([number]))
    with listener("t") as taker:
        for source in (tmp_path, tmp_path / "*.mcap", [tmp_path / "b.mcap", tmp_path / "a.mcap"]):
            with rtmw.Replay(source) as replay:
                replay.run()
            assert values(taker) == [0, 1, 2, 3, 4, 5]


def test_an_empty_recording_is_over_at_once(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap"):
        pass
    with rtmw.Replay(tmp_path / "a.mcap") as replay:
        assert replay.run().published == 0


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.mcap"):
        rtmw.Replay(tmp_path / "nothing.mcap")


def test_of_a_recording_that_was_cut_all_that_is_whole_is_played(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 40, chunk_bytes=64)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with listener("t") as taker, rtmw.Replay(path, rate=None) as replay:
        replay.run()
        got = values(taker)
    assert 0 < len(got) < 40
    assert got == list(range(len(got)))


def test_all_before_a_damage_is_played_and_then_an_error_names_the_file(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 40, chunk_bytes=1)
    with rtmw.Recording(path) as recording:
        chunk = recording.chunks[20]
    data = bytearray(path.read_bytes())
    data[chunk.position + chunk.length - 1] ^= 1
    path.write_bytes(data)
    with listener("t") as taker, rtmw.Replay(path, rate=None) as replay:
        with pytest.raises(rtmw.RecordingDamaged, match=r"a\.mcap"):
            replay.run()
        got = values(taker)
    assert got == list(range(20))


def test_a_replay_waits_for_its_subscribers(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["a", "b"], 2)
    with rtmw.Replay(path) as replay, listener("a"):
        assert not replay.wait_for_subscribers(timeout=0.05)
        with listener("b"):
            assert replay.wait_for_subscribers(timeout=PATIENCE)


def test_after_close_it_says_so_and_a_domain_closes_its_replays(tmp_path: Path, domain: rtmw.Domain) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 2, apart_ns=3600 * SECOND)
    replay = rtmw.Replay(path, domain=domain)
    replay.play()
    domain.close()
    with pytest.raises(rtmw.ClosedError):
        replay.play()
    replay.close()
