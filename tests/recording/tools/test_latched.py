"""A section begins with what was latched then: the last messages before it that a late subscriber would have got."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcap.writer import Writer

import rtmw
from rtmw.cli import main
from rtmw.errors import RecordingError
from rtmw.recording import Recording
from rtmw.recording.tools.check import check
from rtmw.recording.tools.copying import Section, cut
from tests.recorder.files import taken
from tests.recordings import BEGIN_NS, SECOND, Maker

Told = list[tuple[bytes, int, int, int]]
PROFILE = "- history: {history}\n  depth: 1\n  reliability: 1\n  durability: {durability}\n"


def of(source: Path, start: float, *topics: str) -> Told:
    """Payload, seconds of log and of publish time, and flags of each message of a section."""
    target = source.with_name("section.mcap")
    target.unlink(missing_ok=True)
    written = cut(source, target, Section(topics or None, start))
    assert check(target).problems == []
    with Recording(target) as recording:
        found = list(recording.messages())
    assert written.messages == len(found)
    times = [((m.log_time - BEGIN_NS) // SECOND, (m.publish_time - BEGIN_NS) // SECOND) for m in found]
    return [(m.payload, *time, m.flags) for m, time in zip(found, times, strict=True)]


def test_the_last_message_of_each_publisher_is_carried_to_the_start(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap", chunk_bytes=1) as maker:
        kept, plain = maker.channel("kept", history=3), maker.channel("plain")
        for second, publisher in enumerate((1, 2, 1, 1, 3)):
            maker.write(kept, second * SECOND, bytes([second]), publisher=publisher)
            maker.write(plain, second * SECOND, b"plain")
    assert of(maker.path, 4.0) == [(b"\1", 4, 1, 1), (b"\3", 4, 3, 1), (b"\4", 4, 4, 0), (b"plain", 4, 4, 0)]
    assert of(maker.path, 9.0) == [(b"\1", 9, 1, 1), (b"\3", 9, 3, 1), (b"\4", 9, 4, 1)]
    with pytest.raises(RecordingError, match=r"a section from 9 s on has nothing of .*, which ends 4 s after it began"):
        of(maker.path, 9.0, "plain")
    assert of(maker.path, 0.0)[:2] == [(b"\0", 0, 0, 0), (b"plain", 0, 0, 0)]


def test_all_that_is_known_of_it_is_carried_too_and_what_has_expired_stays_behind(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        kept = maker.channel("kept", history=1)
        maker.write(kept, 0, b"long", publisher=1, priority=3, sequence=7, left=9 * SECOND)
        maker.write(kept, 0, b"short", publisher=2, left=5 * SECOND)
        maker.write(maker.channel("plain"), 9 * SECOND, b"plain")
    cut(maker.path, tmp_path / "b.mcap", Section(None, 5.0))
    with Recording(tmp_path / "b.mcap") as recording:
        carried, _ = recording.messages()
        assert recording.start_ns == BEGIN_NS + 5 * SECOND
    assert (carried.payload, carried.publisher, carried.priority, carried.sequence) == (b"long", 1, 3, 7)
    assert (carried.expires, carried.publish_time) == (BEGIN_NS + 9 * SECOND, BEGIN_NS)


def test_what_was_carried_into_the_file_already_is_carried_once(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap", chunk_bytes=1) as maker:
        kept = maker.channel("kept", history=1)
        maker.write(kept, 5 * SECOND, b"old", published=SECOND, publisher=1, flags=1)
        maker.write(kept, 5 * SECOND, b"older", published=0, publisher=2, flags=1)
        maker.write(kept, 7 * SECOND, b"new", publisher=1)
    assert of(maker.path, 0.0) == [(b"old", 5, 1, 1), (b"older", 5, 0, 1), (b"new", 7, 7, 0)]
    assert of(maker.path, 1.0) == [(b"older", 6, 0, 1), (b"old", 6, 1, 1), (b"new", 7, 7, 0)]
    assert of(maker.path, 3.0) == [(b"older", 8, 0, 1), (b"new", 8, 7, 1)]


def test_the_newest_is_found_where_chunks_overlap(tmp_path: Path) -> None:
    """As after a jump of the clock."""
    with Maker(tmp_path / "a.mcap") as maker:
        kept = maker.channel("kept", history=1)
        for seconds in ((0, 5, 20), (3, 6), (1, 2)):
            for second in seconds:
                maker.write(kept, second * SECOND, bytes([second]))
            maker.writer.flush()
    assert of(maker.path, 10.0) == [(b"\x06", 10, 6, 1), (b"\x14", 20, 20, 0)]


def test_of_a_bag_of_ros_2_as_many_come_as_had_publishers_that_keep_some(tmp_path: Path) -> None:
    profiles = {
        "/tf_static": PROFILE.format(history=1, durability=1) * 2 + PROFILE.format(history=1, durability=2),
        "/map": PROFILE.format(history="keep_last", durability="transient_local"),
        "/scan": PROFILE.format(history=1, durability=2),
    }
    with (tmp_path / "bag.mcap").open("wb") as file:
        writer = Writer(file, chunk_size=1)
        writer.start(profile="ros2")
        for topic, profile in profiles.items():
            channel = writer.register_channel(topic, "cdr", 0, {"offered_qos_profiles": profile})
            for second in range(5):
                time = BEGIN_NS + second * SECOND
                writer.add_message(channel, time, topic.encode() + bytes([second]), time)
        writer.finish()
    assert of(tmp_path / "bag.mcap", 4.0)[:3] == [
        (b"/tf_static\2", 4, 2, 1),
        (b"/tf_static\3", 4, 3, 1),
        (b"/map\3", 4, 3, 1),
    ]


def test_a_section_of_what_was_recorded_is_played_with_what_was_latched(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Publisher("map", domain=domain, history=1) as map_publisher,
        rtmw.Publisher("data", domain=domain) as data,
        rtmw.Recorder(["map", "data"], tmp_path / "run", domain=domain) as recorder,
    ):
        map_publisher.publish(b"map")
        taken(recorder, 1)
        data.publish(b"data")
        taken(recorder, 2)
    with Recording(recorder.paths[0]) as recording:
        first, last = (message.log_time for message in recording.messages())
    start = (last - first) / 2e9
    target = tmp_path / "section.mcap"
    assert main(["recording", "cut", str(recorder.paths[0]), "--start", f"{start:.9f}", "-o", str(target)]) == 0
    with rtmw.Subscriber("map", domain=domain) as map_subscriber, rtmw.Subscriber("data", domain=domain) as subscriber:
        with rtmw.Replay(target, domain=domain, rate=None) as replay:
            replay.run()
        assert map_subscriber.receive(60).value == b"map"
        assert subscriber.receive(60).value == b"data"


def test_the_command_says_how_many_were_carried_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("kept", history=1), 0, b"kept")
        maker.write(maker.channel("plain"), 2 * SECOND, b"plain")
    target = tmp_path / "b.mcap"
    assert main(["recording", "cut", str(maker.path), "--start", "1", "-o", str(target)]) == 0
    assert capsys.readouterr().out == (f"{target} has 2 messages\n  latched before that, and carried over: 1 message\n")
