"""The recording's time as a topic: at even times of the recording, in order with its messages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct, types
from cyclonedds.idl.annotations import final

import rtmw
from rtmw.cli import main
from rtmw.player.feeder import DTYPE, Clock, Cues, Ticks, Time, payloads
from rtmw.types import resolve
from tests.recordings import BEGIN_NS, MS, SECOND, Maker, numbered

pytestmark = pytest.mark.usefixtures("domain")


def made(*times: int) -> Cues:
    cues = np.zeros(len(times), DTYPE)
    cues["log_ns"] = times
    return Cues(cues, [b"data"])


def played(found: list[Cues]) -> list[tuple[int, int]]:
    """Track and time of each cue."""
    return [(int(cue["track"]), int(cue["log_ns"])) for cues in found for cue in cues.cues]


@final
@dataclass
class RosTime(IdlStruct, typename="builtin_interfaces.msg.Time"):
    sec: types.int32
    nanosec: types.uint32


@final
@dataclass
class RosClock(IdlStruct, typename="rosgraph_msgs.msg.Clock"):
    clock: RosTime


def test_the_type_and_the_payload_are_those_of_ros() -> None:
    times = np.array([0, BEGIN_NS + 123_456_789])
    ours, ros = resolve(Clock), resolve(RosClock)
    assert ours.description == ros.description
    assert payloads(times) == bytes(ros.encode(RosClock(RosTime(0, 0)))) + bytes(
        ours.encode(Clock(Time(BEGIN_NS // SECOND, 123_456_789)))
    )


def test_ticks_are_even_from_the_start_to_the_last_message_and_come_before_messages_of_their_time() -> None:
    ticks = Ticks(1, 10, False)
    found = [*ticks.among(iter([made(5, 10, 12), made(31), made(40, 40)]), 0)]
    assert played(found) == [
        (1, 0), (0, 5), (1, 10), (0, 10), (0, 12), (1, 20), (1, 30), (0, 31), (1, 40), (0, 40), (0, 40),
    ]  # fmt: skip
    for cues in found:
        ticking = cues.cues[cues.cues["track"] == 1]
        assert {int(number) for number in ticking["buffer"]} <= {len(cues.buffers) - 1}


def test_a_long_silence_is_ticked_through_in_blocks() -> None:
    found = [*Ticks(1, 10, False).among(iter([made(0, 1_000_000)]), 0)]
    assert played(found) == [(1, 0), (0, 0), *((1, at) for at in range(10, 1_000_001, 10)), (0, 1_000_000)]
    assert max(len(cues.cues) for cues in found) <= 4098


def test_without_a_message_there_is_no_tick() -> None:
    assert [*Ticks(1, 10, False).among(iter([]), 0)] == []


def test_subscribers_see_the_time_of_the_recording_at_any_rate(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 11, 100 * MS)
    with (
        rtmw.Subscriber("clock", Clock, depth=1000) as clocks,
        rtmw.Replay(path, rate=None, clock=10.0) as replay,
    ):
        assert replay.topics == ("t", "clock")
        stats = replay.run()
        found = [sample.value.clock for sample in iter(clocks.take, None)]
    assert [time.sec * SECOND + time.nanosec - BEGIN_NS for time in found] == [at * 100 * MS for at in range(11)]
    assert stats.published == 22


def test_a_replay_from_a_moment_on_begins_with_that_time_which_late_subscribers_get(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 11, 100 * MS)
    with rtmw.Replay(path, rate=None, start=0.75, clock=1.0) as replay:
        replay.run()
        with rtmw.Subscriber("clock", rtmw.ANY, history=1) as late:
            sample = late.take()
    assert sample is not None
    assert sample.type_name.replace(".", "::") == "rosgraph_msgs::msg::Clock"
    assert sample.value.clock.sec * SECOND + sample.value.clock.nanosec == BEGIN_NS + 750 * MS


def test_to_wait_for_subscribers_is_to_wait_for_those_of_recorded_topics(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 1)
    with rtmw.Subscriber("t"), rtmw.Replay(path, clock=10.0) as replay:
        assert replay.wait_for_subscribers(timeout=60)


def test_a_recorded_topic_of_that_name_is_left_out_or_renamed(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("clock"), 0, b"")
        maker.write(maker.channel("t"), 0, b"")
    with pytest.raises(ValueError, match="the recording has a topic clock, too: leave it out"):
        rtmw.Replay(maker.path, clock=1.0)
    rtmw.Replay(maker.path, clock=1.0, topics=["t"]).close()
    rtmw.Replay(maker.path, clock=1.0, remap={"clock": "old"}).close()


@pytest.mark.parametrize("hz", [0.0, -1.0, 1001.0, float("nan")])
def test_a_rate_of_the_clock_that_is_none_is_refused(tmp_path: Path, hz: float) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 1)
    with pytest.raises(ValueError, match="above 0 and at most 1000 times a second"):
        rtmw.Replay(path, clock=hz)


def test_the_command_publishes_it_forty_times_a_second_unless_it_is_told(tmp_path: Path, domain: rtmw.Domain) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 11, 100 * MS)
    for asked, count in ((["--clock"], 41), (["--clock", "5"], 6)):
        with rtmw.Subscriber("clock", rtmw.ANY, depth=1000) as clocks:
            assert main(["replay", str(path), "--rate", "max", "--domain", str(domain.id), *asked]) == 0
            assert len([*iter(clocks.take, None)]) == count
