"""Recorder: what flowed is in its files, and what is not is counted."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct, types

import rtmw
from rtmw import shm
from rtmw.publisher import OwnPublisher
from rtmw.recorder.sources import ENDED_MOST, Collector
from tests.books import assert_usable, examine
from tests.child import Spawn
from tests.recorder.files import LONG_S, messages_of, payloads_of, table_of, taken, until


@dataclass
class Speed(IdlStruct, typename="plant.Speed"):
    pump: types.int32
    rpm: types.float64


def test_every_message_is_recorded_as_it_was(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("a", tmp_path / "run", domain=domain) as recorder,
        rtmw.Publisher("a", domain=domain, priority=2, lifetime=3600.0) as publisher,
    ):
        identity, before = publisher.identity, time.time_ns()
        for i in range(100):
            publisher.publish(b"%d" % i, priority=i % 8)
    found = messages_of(recorder.paths)
    assert sorted(int(message.payload) for message in found) == list(range(100))
    assert {(m.priority, m.sequence) for m in found} == {(i % 8, i // 8 + 1) for i in range(100)}
    for message in found:
        assert message.priority == int(message.payload) % 8
        assert message.publisher == identity
        assert before - 10**7 <= message.publish_time <= message.log_time + 10**7 <= time.time_ns() + 10**7
        assert message.expires == pytest.approx(message.publish_time + 3600 * 10**9, abs=10**8)
        assert message.flags == 0


def test_a_typed_topic_is_decoded_by_its_recording_alone(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder(["speed", "table", "raw"], tmp_path / "run", domain=domain) as recorder,
        rtmw.Publisher("speed", Speed, domain=domain) as speed,
        rtmw.Publisher("table", np.dtype(("<i4", (3,))), domain=domain) as table,
        rtmw.Publisher("raw", domain=domain) as raw,
    ):
        speed.publish(Speed(7, 0.5))
        table.publish(np.array([1, 2, 3], "<i4"))
        raw.publish(b"as it is")
    found = {}
    with rtmw.Recording(recorder.paths[0]) as recording:
        for message in recording.messages():
            type = recording.message_type(message.channel)
            assert type is not None
            found[message.channel.topic] = type.decode(message.payload) if type.decode else message.payload
    assert (found["speed"].pump, found["speed"].rpm) == (7, 0.5)
    assert found["table"].tolist() == [1, 2, 3]
    assert found["raw"] == b"as it is"


def test_the_qos_of_the_publisher_is_in_the_channel(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Publisher(
            "a", domain=domain, reliability=rtmw.Reliability.RELIABLE, priority=5, lifetime=2.0, history=3, depth=9
        ) as publisher,
        rtmw.Recorder("a", tmp_path / "run", domain=domain) as recorder,
    ):
        publisher.publish(b"1")
        taken(recorder, 1)
    with rtmw.Recording(recorder.paths[0]) as recording:
        ((channel,),) = recording.topics().values()
    metadata = {key: value for key, value in channel.metadata.items() if key != "rtmw.type"}
    assert metadata == {
        "rtmw.reliability": "RELIABLE",
        "rtmw.priority": "5",
        "rtmw.lifetime_ns": "2000000000",
        "rtmw.history": "3",
        "rtmw.depth": "9",
    }


def test_so_is_that_of_a_publisher_that_left_before_anything_was_written(domain: rtmw.Domain, tmp_path: Path) -> None:
    publisher = rtmw.Publisher("a", domain=domain, reliability=rtmw.Reliability.RELIABLE, history=3)
    with rtmw.Recorder("a", tmp_path / "run", domain=domain) as recorder:
        publisher.publish(b"1")
        publisher.close()
    with rtmw.Recording(recorder.paths[0]) as recording:
        ((channel,),) = recording.topics().values()
    assert (channel.metadata["rtmw.reliability"], channel.metadata["rtmw.history"]) == ("RELIABLE", "3")


def test_patterns_find_topics_that_are_there_and_topics_that_come(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Publisher("plant/old", domain=domain) as old,
        rtmw.Recorder("plant/*", tmp_path / "run", exclude="plant/secret*", domain=domain) as recorder,
    ):
        old.publish(b"old")
        for topic in ("plant/new", "plant/secret1", "river"):
            with rtmw.Publisher(topic, domain=domain) as publisher:
                publisher.publish(topic[-3:].encode())
        taken(recorder, 2)
    assert {(m.channel.topic, m.payload) for m in messages_of(recorder.paths)} == {
        ("plant/old", b"old"),
        ("plant/new", b"new"),
    }


def test_topics_of_rtmw_itself_are_recorded_only_by_name(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("*", tmp_path / "all", domain=domain) as every,
        rtmw.Recorder(["rtmw/node"], tmp_path / "one", domain=domain) as one,
        OwnPublisher("rtmw/node", domain=domain) as node,
        rtmw.Publisher("a", domain=domain) as other,
    ):
        node.publish(b"status")
        other.publish(b"data")
        taken(every, 1)
    assert payloads_of(every.paths) == [b"data"]
    assert payloads_of(one.paths) == [b"status"]


def test_the_first_message_of_a_named_topic_is_recorded(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("later", tmp_path / "run", domain=domain) as recorder,
        rtmw.Publisher("later", domain=domain) as publisher,
    ):
        for i in range(50):
            publisher.publish(bytes([i]) * 5000)
    assert [payload[0] for payload in payloads_of(recorder.paths)] == list(range(50))


def test_messages_kept_for_late_subscribers_are_recorded(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Publisher("map", domain=domain, history=1) as latched,
        rtmw.Publisher("data", domain=domain) as plain,
    ):
        latched.publish(b"old map")
        latched.publish(b"map")
        plain.publish(b"long ago")
        with rtmw.Recorder("*", tmp_path / "run", domain=domain) as recorder:
            taken(recorder, 1)
            plain.publish(b"now")
    assert payloads_of(recorder.paths) == [b"map", b"now"]


@pytest.mark.parametrize("reliable", [False, True])
def test_what_lay_in_a_topic_before_stays_out_when_its_publishers_come_again(
    reliable: bool, domain: rtmw.Domain, tmp_path: Path
) -> None:
    """Not even if the recorder asks for less because of them."""
    with rtmw.Publisher("a", domain=domain) as first:
        for priority in range(8):
            first.publish(b"long ago", priority=priority)
    with (
        rtmw.Recorder("*", tmp_path / "run", domain=domain, reliable=reliable) as recorder,
        rtmw.Publisher("a", domain=domain) as second,
    ):
        for i in range(50):
            second.publish(b"now", priority=i % 8)
            time.sleep(0.01)  # so that it is seen while it publishes, and adapted to
        taken(recorder, 50)
    assert payloads_of(recorder.paths) == [b"now"] * 50
    assert not recorder.stats().missing


def test_a_topic_whose_type_changes_has_a_channel_for_each(domain: rtmw.Domain, tmp_path: Path) -> None:
    with rtmw.Recorder("a", tmp_path / "run", domain=domain) as recorder:
        with rtmw.Publisher("a", domain=domain) as first:
            first.publish(b"text")
        with rtmw.Publisher("a", Speed, domain=domain) as second:
            second.publish(Speed(1, 2.0))
    found = messages_of(recorder.paths, "a")
    assert [message.channel.message_encoding for message in found] == ["application/octet-stream", "cdr"]


def test_the_end_of_the_file_tells_what_there_was(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Publisher("a", domain=domain) as publisher,
        rtmw.Recorder("a", tmp_path / "run", domain=domain) as recorder,
    ):
        publisher.publish(b"1")
        identity = publisher.identity
    about = table_of(recorder.paths[0], "rtmw.recorder")
    assert (about["domain"], about["began"]) == (str(domain.id), "start")
    assert (about["topics"], about["missing"]) == ({"a": {"messages": 1}}, {})
    assert about["known"] == ["a"]
    assert str(identity) in table_of(recorder.paths[0], "rtmw.publishers")


def test_two_recorders_do_not_disturb_each_other(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("*", tmp_path / "one", domain=domain) as one,
        rtmw.Recorder("a", tmp_path / "two", domain=domain, compression="zstd") as two,
        rtmw.Publisher("a", domain=domain) as publisher,
    ):
        until(lambda: one.stats().topics == 1)
        for i in range(1000):
            publisher.publish(b"%d" % i)
        taken(one, 1000)
        taken(two, 1000)
    expected = [b"%d" % i for i in range(1000)]
    assert payloads_of(one.paths) == payloads_of(two.paths) == expected


def test_a_recording_of_nothing_is_complete(domain: rtmw.Domain, tmp_path: Path) -> None:
    with rtmw.Recorder("*", tmp_path / "run", domain=domain) as recorder:
        pass
    assert payloads_of(recorder.paths) == []


def test_a_large_message_is_recorded_whole(domain_id: int, tmp_path: Path) -> None:
    payload = np.random.default_rng(0).bytes(40 << 20)
    with (
        rtmw.Domain(domain_id, pool="128M") as domain,
        rtmw.Recorder("image", tmp_path / "run", domain=domain) as recorder,
        rtmw.Publisher("image", domain=domain) as publisher,
    ):
        publisher.publish(payload)
        publisher.publish(b"small")
        taken(recorder, 2)
    assert payloads_of(recorder.paths) == [payload, b"small"]


def test_a_thousand_topics_are_recorded(domain_id: int, tmp_path: Path) -> None:
    with rtmw.Domain(domain_id) as domain:
        with rtmw.Recorder("*", tmp_path / "run", domain=domain) as recorder:
            for i in range(1000):
                with rtmw.Publisher(f"topic/{i}", domain=domain) as publisher:
                    publisher.publish(b"%d" % i)
            until(lambda: recorder.stats().messages == 1000)
        assert not recorder.stats().missing
    assert {(m.channel.topic, m.payload) for m in messages_of(recorder.paths)} == {
        (f"topic/{i}", b"%d" % i) for i in range(1000)
    }


def heard(domain: rtmw.Domain) -> set[str]:
    """Topics that have a subscriber."""
    lives = {row.topic for row in shm.subscribers(domain.region)}
    return {row.name for row in shm.topics(domain.region) if row.life in lives}


# Proves G138.
def test_topics_that_ended_are_left_and_heard_again_with_all_that_they_have_kept(
    domain: rtmw.Domain, tmp_path: Path
) -> None:
    def publish(first: int, last: int, *messages: bytes) -> None:
        for i in range(first, last):
            with rtmw.Publisher(f"t/{i}", domain=domain, history=9) as publisher:
                for message in messages:
                    publisher.publish(message)

    large = bytes(1000)
    with rtmw.Recorder(["t/*", "named"], tmp_path / "run", domain=domain) as recorder:
        publish(0, ENDED_MOST + 3, b"1", large)
        until(lambda: "named" in heard(domain) and not heard(domain) & {"t/0", "t/1", "t/2"})
        publish(0, 2, b"2", large, b"3")
        taken(recorder, 2 * (ENDED_MOST + 3) + 6)
        publish(2, 3, b"4")  # it is closed meanwhile: it looks once more
    assert payloads_of(recorder.paths, "t/0") == payloads_of(recorder.paths, "t/1") == [b"1", large, b"2", large, b"3"]
    assert payloads_of(recorder.paths, "t/2") == [b"1", large, b"4"]
    assert not recorder.stats().missing
    with rtmw.Recording(recorder.paths[0]) as recording:
        assert len(recording.channels) == ENDED_MOST + 3
    assert {t.name: t.messages for t in recorder.topics()}["t/0"] == 5


# Proves G138.
def test_a_topic_that_was_left_and_is_made_anew_is_recorded_from_its_first_message(
    domain_id: int, tmp_path: Path
) -> None:
    """Its queue has other sequences then."""
    with rtmw.Domain(domain_id, pool="8M") as domain, rtmw.Recorder("t/*", tmp_path / "run", domain=domain) as recorder:
        count, first = 0, 0
        for _ in range(2):
            with rtmw.Publisher("t/first", domain=domain) as publisher:
                for _ in range(20):
                    publisher.publish(b"%d" % first)
                    first += 1
            while count == 0 or any(row.name == "t/first" for row in shm.topics(domain.region)):
                for _ in range(32):
                    count += 1
                    with rtmw.Publisher(f"t/{count}", domain=domain) as publisher:
                        publisher.publish(b"")
                taken(recorder, first + count)
    assert payloads_of(recorder.paths, "t/first") == [b"%d" % number for number in range(40)]
    assert not recorder.stats().missing


# Proves G138.
def test_of_a_thousand_clients_that_come_in_turn_each_message_is_recorded(domain_id: int, tmp_path: Path) -> None:
    """In a pool that has no room for a topic of each."""
    with (
        rtmw.Domain(domain_id, pool="8M") as domain,
        rtmw.Recorder("double/#", tmp_path / "run", domain=domain) as recorder,
        rtmw.Service("double", lambda value: 2 * value, domain=domain),
    ):

        def is_heard(topic: str) -> bool:
            return len(shm.subscribers(domain.region, domain.region.topic_life(topic))) == 2

        for number in range(1000):
            if number % 50 == 0:
                until(lambda: len(heard(domain)) < 2 * ENDED_MOST)  # it has left those that ended meanwhile
            with rtmw.Client("double", domain=domain) as client:
                assert client.call(b"%d" % number, timeout=LONG_S) == 2 * (b"%d" % number)
                until(partial(is_heard, f"double/reply/{client._line.id:x}"))
    found = messages_of(recorder.paths)
    assert sum(message.channel.topic == "double/request" for message in found) == 1000
    replies = Counter(message.channel.topic for message in found if message.channel.topic != "double/reply/server")
    assert Counter(replies.values()) == {1: 1000, 1000: 1}
    assert not recorder.stats().missing


def test_after_the_end_the_last_numbers_stay(domain: rtmw.Domain, tmp_path: Path) -> None:
    recorder = rtmw.Recorder("a", tmp_path / "run", domain=domain)
    with rtmw.Publisher("a", domain=domain) as publisher:
        publisher.publish(b"1")
    recorder.close()
    recorder.close()
    assert recorder.stats().messages == 1
    assert recorder.stats().written == recorder.paths[0].stat().st_size
    assert [topic.name for topic in recorder.topics()] == ["a"]
    with pytest.raises(rtmw.ClosedError):
        recorder.pause()


def test_bad_wishes_are_refused_in_words(domain: rtmw.Domain, tmp_path: Path) -> None:
    for options, said in (
        ({"compression": "gzip"}, "one of lz4, zstd, none, not 'gzip'"),
        ({"split_every": 0.0}, "split_every=0.0 is not possible"),
        ({"keep": True}, "keep=True is not possible; it must be a number above 0"),
        ({"buffer_bytes": 1000}, "fewer than 4 chunks"),
        ({"snapshot": 1.0, "split_bytes": 10**9}, "a snapshot is one file"),
        ({"split_bytes": 1_000_000}, "no room for a chunk of 1048576; split them later, or make chunks smaller"),
    ):
        with pytest.raises(ValueError, match=said):
            rtmw.Recorder("a", tmp_path / "run", domain=domain, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no topic"):
        rtmw.Recorder([], tmp_path / "run", domain=domain)
    with rtmw.Recorder("a", tmp_path / "run", domain=domain) as recorder, pytest.raises(ValueError, match="snapshot"):
        recorder.snapshot()


LEAVING = """
import os, rtmw
recorder = rtmw.Recorder("a", {folder!r}, domain=int(os.environ["RTMW_DOMAIN"]))
print("in")
input()
recorder.close()
print("out")
input()
"""


def test_told_a_number_it_leaves_the_domain_at_its_end(domain: rtmw.Domain, spawn: Spawn, tmp_path: Path) -> None:
    child = spawn(LEAVING.format(folder=str(tmp_path / "run")))
    assert child.line(LONG_S) == "in"
    assert child.pid in {view.pid for view in examine(domain).participants}
    child.send()
    assert child.line(LONG_S) == "out"
    assert child.pid not in {view.pid for view in examine(domain).participants}


def test_a_domain_that_it_was_given_stays_open(domain: rtmw.Domain, tmp_path: Path) -> None:
    rtmw.Recorder("a", tmp_path / "run", domain=domain).close()
    assert_usable(domain)


FORGETFUL = """
import sys, rtmw
recorder = rtmw.Recorder("a", sys.argv[1])
rtmw.Publisher("a").publish(b"1")
"""


@pytest.mark.usefixtures("domain")
def test_a_program_that_forgets_to_close_its_recorder_leaves_a_complete_file(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORGETFUL, str(tmp_path / "run")], timeout=LONG_S, check=True)
    assert payloads_of([tmp_path / "run" / "run_0.mcap"]) == [b"1"]


FORKED = """
import os, sys, rtmw
recorder = rtmw.Recorder("a", sys.argv[1])
publisher = rtmw.Publisher("a")
publisher.publish(b"1")
child = os.fork()
if not child:
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
publisher.publish(b"2")
recorder.close()
"""


@pytest.mark.usefixtures("domain")
def test_a_child_of_the_process_that_records_ends_as_it_would_otherwise(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "run")]
    subprocess.run(command, timeout=LONG_S, check=True)
    assert payloads_of([tmp_path / "run" / "run_0.mcap"]) == [b"1", b"2"]


# Proves G165.
def test_a_recorder_that_cannot_begin_leaves_no_file(domain: rtmw.Domain, tmp_path: Path) -> None:
    with ExitStack() as places:
        with suppress(rtmw.RtmwError):  # until no process more can take part
            for _ in range(200):
                places.callback(Collector(domain.id, 1, 1).close)
        with pytest.raises(rtmw.RtmwError):
            rtmw.Recorder("a", tmp_path / "run", domain=domain)
    assert not [*tmp_path.rglob("*.mcap")]
    with rtmw.Recorder("a", tmp_path / "run", domain=domain) as recorder:
        assert [path.name for path in recorder.paths] == ["run_0.mcap"]


# Proves G115.
def test_a_recorder_waits_for_a_domain_that_comes_later_and_makes_none(domain_id: int, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(rtmw.Recorder, "a", tmp_path / "run", domain=domain_id, wait=LONG_S)
        with rtmw.Domain(domain_id, pool="8M") as made, rtmw.Publisher("a", domain=made) as publisher:
            with late.result(LONG_S) as recorder:
                publisher.publish(b"level")
                taken(recorder, 1)
            assert made.pool == 8 << 20, "nobody else has made it"
    assert payloads_of(recorder.paths) == [b"level"]


def test_a_recorder_whose_domain_does_not_come_says_how_long_it_waited_and_leaves_no_file(
    domain_id: int, tmp_path: Path
) -> None:
    with pytest.raises(rtmw.DomainNotFound, match=rf"domain {domain_id} does not exist.* within 0\.2 s"):
        rtmw.Recorder("a", tmp_path / "run", domain=domain_id, wait=0.2)
    assert not (tmp_path / "run").exists()
    with pytest.raises(rtmw.DomainNotFound):
        rtmw.Domain(domain_id, create=False)
