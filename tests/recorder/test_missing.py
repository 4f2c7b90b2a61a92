"""What a recorder does not record is counted, by its cause; and with `reliable` there is nothing of it."""

from __future__ import annotations

import time
from ast import literal_eval
from collections import Counter
from pathlib import Path

import pytest

import rtmw
from rtmw.recording.contents import Cause, Message
from tests.child import Spawn
from tests.recorder.files import LONG_S, missed_of, payloads_of, taken, until


def test_what_a_new_topic_had_before_it_was_found_is_recorded_or_counted(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("*", tmp_path / "run", domain=domain) as recorder,
        rtmw.Publisher("new", domain=domain, depth=1) as publisher,
    ):
        for _ in range(300):
            publisher.publish(bytes(10_000))
        until(lambda: recorder.stats().messages + sum(recorder.stats().missing.values()) >= 300)
    assert recorder.stats().missing.keys() <= {Cause.EARLY, Cause.MISSED}
    assert recorder.stats().messages + sum(recorder.stats().missing.values()) == 300
    told = Counter({("new", cause): count for cause, count in recorder.stats().missing.items()})
    assert missed_of(recorder.paths) == told


def test_what_comes_while_it_is_paused_is_not_recorded_but_counted(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("a", tmp_path / "run", domain=domain) as recorder,
        rtmw.Publisher("a", domain=domain) as publisher,
    ):
        publisher.publish(b"before")
        taken(recorder, 1)
        recorder.pause()
        publisher.publish(b"meanwhile")
        until(lambda: recorder.stats().missing == {Cause.PAUSED: 1})
        assert recorder.stats().is_paused
        recorder.resume()
        publisher.publish(b"after")
    assert payloads_of(recorder.paths) == [b"before", b"after"]
    assert missed_of(recorder.paths) == {("a", Cause.PAUSED): 1}


def test_a_message_that_expired_on_the_way_is_counted(domain: rtmw.Domain, tmp_path: Path) -> None:
    with rtmw.Publisher("a", domain=domain, history=1) as publisher:
        publisher.publish(b"gone", lifetime=1e-6)
        time.sleep(0.01)
        with rtmw.Recorder("a", tmp_path / "run", domain=domain) as recorder:
            publisher.publish(b"here")
            taken(recorder, 1)
    assert payloads_of(recorder.paths) == [b"here"]
    assert recorder.stats().missing == {Cause.EXPIRED: 1}


RECORDS = """
    import rtmw
    with rtmw.Recorder("x*", {folder!r}, domain={domain}) as recorder:
        print(flush=True)
        input()
    stats = recorder.stats()
    print(stats.messages, {{cause.name: count for cause, count in stats.missing.items()}}, flush=True)
"""


# Proves G162.
def test_what_expired_while_the_recorder_was_stopped_is_counted_once(
    domain: rtmw.Domain, tmp_path: Path, spawn: Spawn
) -> None:
    child = spawn(RECORDS.format(folder=str(tmp_path / "run"), domain=domain.id))
    child.line(LONG_S)
    with rtmw.Publisher("x", domain=domain) as publisher:
        assert publisher.wait_for_subscribers(1, LONG_S)
        child.stop()
        for _ in range(100):
            publisher.publish(b"gone", lifetime=1e-9)
        for _ in range(10):
            publisher.publish(b"here")
        child.cont()
        child.send()
        assert child.line(LONG_S) == "10 {'EXPIRED': 100}"


def test_a_topic_that_cannot_be_recorded_is_told_and_the_others_are_recorded(
    domain: rtmw.Domain, tmp_path: Path
) -> None:
    with rtmw.Recorder(["a", "x" * 192], tmp_path / "run", domain=domain) as recorder:
        with rtmw.Publisher("a", domain=domain) as publisher:
            publisher.publish(b"1")
        assert recorder.skipped.keys() == {"x" * 192}
    assert payloads_of(recorder.paths) == [b"1"]


def test_a_reliable_publisher_waits_for_a_reliable_recorder(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder(
            "a", tmp_path / "run", domain=domain, reliable=True, chunk_bytes=2000, buffer_bytes=8000
        ) as recorder,
        rtmw.Publisher("a", domain=domain, reliability=rtmw.Reliability.RELIABLE, max_blocking=LONG_S) as publisher,
    ):
        for i in range(5000):
            assert publisher.publish(b"%05d" % i * 20)
    assert payloads_of(recorder.paths) == [b"%05d" % i * 20 for i in range(5000)]
    assert not recorder.stats().missing


def test_a_reliable_recorder_asks_for_less_when_less_is_offered(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("a", tmp_path / "run", domain=domain, reliable=True) as recorder,
        rtmw.Publisher("a", domain=domain, reliability=rtmw.Reliability.RELIABLE) as strong,
        rtmw.Publisher("a", domain=domain) as weak,
    ):
        published = 0
        strong.publish(b"strong")
        taken(recorder, 1)
        while b"weak" not in {m.payload for m in _so_far(recorder)}:
            weak.publish(b"weak")
            strong.publish(b"strong")
            published += 2
            assert published < 10**5
            time.sleep(0.01)
    found = Counter(payloads_of(recorder.paths))
    assert found.total() + sum(recorder.stats().missing.values()) == 1 + published
    assert found[b"strong"] == 1 + published // 2


GIVES_WAY = """
    import time
    import rtmw
    with rtmw.Recorder("a", {folder!r}, domain={domain}, reliable=True) as recorder:
        for count in 150, {count}:
            print(flush=True)
            input()
            while (stats := recorder.stats()).messages + sum(stats.missing.values()) < count:
                time.sleep(0.001)
    stats = recorder.stats()
    print(stats.messages, {{cause.name: count for cause, count in sorted(stats.missing.items())}}, flush=True)
"""


@pytest.mark.parametrize("expired", [0, 60])
# Proves G163.
def test_a_reliable_recorder_that_gives_way_counts_nothing_that_it_has_recorded_or_counted(
    domain: rtmw.Domain, tmp_path: Path, spawn: Spawn, expired: int
) -> None:
    child = spawn(GIVES_WAY.format(folder=str(tmp_path / "run"), domain=domain.id, count=200 + expired))
    child.line(LONG_S)
    with rtmw.Publisher("a", domain=domain, reliability=rtmw.Reliability.RELIABLE, history=1000, depth=1000) as strong:
        for _ in range(150):
            strong.publish(b"strong", lifetime=0.5)
        since = time.monotonic()
        child.send()
        child.line(LONG_S)
        child.stop()
        for _ in range(expired):
            strong.publish(b"gone", lifetime=1e-9)
        with rtmw.Publisher("a", domain=domain, reliability=rtmw.Reliability.TIMELY, history=50, depth=50) as weak:
            for _ in range(50):
                weak.publish(b"weak")
            time.sleep(max(0.0, since + 0.6 - time.monotonic()))  # what was recorded has expired
            child.cont()
            child.send()
            messages, missing = child.line(LONG_S).split(" ", 1)
    found = Counter(payloads_of(sorted((tmp_path / "run").iterdir())))
    assert found[b"weak"] == 50
    assert found.total() == int(messages)
    assert Counter(literal_eval(missing)) == Counter(EXPIRED=150 + expired - found[b"strong"])


def _so_far(recorder: rtmw.Recorder) -> list[Message]:
    with rtmw.Recording(recorder.paths[0]) as recording:
        return list(recording.messages())
