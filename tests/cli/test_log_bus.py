"""`rtmw log store` and `rtmw log replay`: topics into a log, and back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtmw
from tests import namespaces
from tests.bus import eventually
from tests.cli.command import ROOT, Run, Start, starting
from topics.river import Alarm

LONG_S = 60.0
RELIABLE = rtmw.Reliability.RELIABLE


@pytest.fixture
def start(domain: rtmw.Domain, tmp_path: Path) -> Iterator[Start]:
    """Starts `rtmw log store` in the domain, and waits until it stores."""
    with starting("log", "store", "-o", str(tmp_path / "log"), said="storing") as start:
        yield start


@pytest.fixture
def pumps(domain: rtmw.Domain) -> Iterator[rtmw.Publisher[bytes]]:
    with rtmw.Publisher("pumps", domain=domain, reliability=RELIABLE, max_blocking=LONG_S) as publisher:
        yield publisher


def ended(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
    process.send_signal(number)
    out, err = process.communicate(timeout=LONG_S)
    return process.returncode, out, err


def records(folder: Path) -> list[rtmw.LogRecord[Any]]:
    with rtmw.Log(folder, rtmw.ANY, create=False) as log:
        return list(log.read())


def numbered(publisher: rtmw.Publisher[bytes], count: int, begin: int = 0) -> list[bytes]:
    sent = [b"%d" % number for number in range(begin, begin + count)]
    assert all(publisher.publish(one) for one in sent)
    return sent


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
# Proves G133.
def test_a_signal_ends_it_when_all_that_was_published_is_in_the_log(
    number: signal.Signals, start: Start, pumps: rtmw.Publisher[bytes], tmp_path: Path
) -> None:
    process = start("pumps")
    sent = numbered(pumps, 5000)
    status, out, err = ended(process, number)
    assert (status, out, err) == (0, "stored 5000 messages, 18.4 KiB, of pumps\n", "")
    found = records(tmp_path / "log")
    assert [record.data for record in found] == sent
    assert {record.key for record in found} == {"pumps"}


def test_what_was_published_before_is_counted_and_said(
    start: Start, pumps: rtmw.Publisher[bytes], tmp_path: Path
) -> None:
    numbered(pumps, 3)
    process = start("pumps", "--json")
    assert process.stderr is not None
    assert (
        process.stderr.readline() == "rtmw log store: pumps: 3 messages had been published before, and are not stored\n"
    )
    numbered(pumps, 2)
    status, out, _ = ended(process)
    facts = json.loads(out)
    assert (status, facts["messages"], facts["earlier"], facts["missing"]) == (0, 2, {"pumps": 3}, {})


# Proves G133.
def test_what_a_publisher_without_reliable_sends_is_counted_and_the_status_says_so(
    start: Start, domain: rtmw.Domain
) -> None:
    with rtmw.Publisher("pumps", domain=domain, reliability=rtmw.Reliability.TIMELY) as publisher:
        process = start("pumps")
        publisher.publish(b"not for RELIABLE subscribers")
        status, out, _ = ended(process)
    assert status == 1
    assert out.splitlines()[:2] == ["stored 0 messages, 0 B, of pumps", "missing: 1 unmatched"]
    assert "not heard: " in out


# Proves G133.
def test_a_storer_that_is_killed_leaves_a_log_without_gaps_and_the_next_one_goes_on(
    start: Start, pumps: rtmw.Publisher[bytes], tmp_path: Path
) -> None:
    process = start("pumps")
    sent = numbered(pumps, 3000)
    eventually(lambda: (tmp_path / "log" / "log").exists() and len(records(tmp_path / "log")) > 0)
    process.kill()
    process.wait()
    kept = [record.data for record in records(tmp_path / "log")]
    assert kept == sent[: len(kept)]
    process = start("pumps")
    more = numbered(pumps, 100, 3000)
    assert ended(process)[0] == 0
    assert [record.data for record in records(tmp_path / "log")] == kept + more


def test_two_storers_of_one_log_are_one_too_many(
    start: Start, pumps: rtmw.Publisher[bytes], run: Run, tmp_path: Path
) -> None:
    process = start("pumps")
    status, _, err = run("log", "store", "pumps", "-o", str(tmp_path / "log"))
    assert status == 1
    assert str(process.pid) in err


def test_topics_of_two_types_are_refused_with_both_names(
    run: Run, pumps: object, domain: rtmw.Domain, tmp_path: Path
) -> None:
    with rtmw.Publisher("alarms", Alarm, domain=domain):
        status, _, err = run("log", "store", "pumps", "alarms", "-o", str(tmp_path / "log"))
    assert status == 1
    assert "pumps carries bytes, and alarms carries river.Alarm: a log has one type" in err
    assert not (tmp_path / "log").exists()


def test_a_topic_that_nobody_publishes_is_waited_for_no_longer_than_asked(
    run: Run, pumps: object, tmp_path: Path
) -> None:
    status, _, err = run("log", "store", "nothing", "-o", str(tmp_path / "log"), "--timeout", "0.1")
    assert status == 1
    assert "There is no topic nothing" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_it_waits_for_a_topic(
    number: signal.Signals, domain: rtmw.Domain, tmp_path: Path
) -> None:
    with starting("log", "store", "-o", str(tmp_path / "log"), said="waits for topic nothing in domain") as start:
        status, out, err = ended(start("nothing"), number)
    assert (status, out, err) == (1, "", "rtmw: There is no topic nothing yet, so nothing was stored.\n")


def test_numpy_messages_come_back_with_their_type(start: Start, run: Run, domain: rtmw.Domain, tmp_path: Path) -> None:
    with rtmw.Publisher("wave", np.float32, domain=domain, reliability=RELIABLE) as publisher:
        process = start("wave")
        publisher.publish(np.arange(10, dtype=np.float32))
        assert ended(process)[0] == 0
    (record,) = records(tmp_path / "log")
    assert record.value.dtype == np.float32
    assert record.value.tolist() == list(range(10))


# Proves G133.
def test_where_the_disk_is_full_nothing_more_is_taken_and_reliable_publishers_wait(
    domain: rtmw.Domain, domain_id: int, tmp_path: Path
) -> None:
    """A disk of 6 MiB, in a mount namespace of the test."""
    (tmp_path / "disk").mkdir()
    mount = f"mount -t tmpfs -o size=6m tmpfs {tmp_path}/disk"
    namespaces.require("unshare", "--mount", "sh", "-c", mount)
    store = f"{sys.executable} -m rtmw log store pumps -o {tmp_path}/disk/log --depth 8 --domain {domain_id}"
    with rtmw.Publisher("pumps", domain=domain, reliability=RELIABLE, max_blocking=0.5) as publisher:
        command = ["unshare", "--mount", "sh", "-c", f"{mount} && exec {store}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        try:
            assert publisher.wait_for_subscribers(timeout=LONG_S)
            published = 0
            while publisher.publish(bytes(20_000)):
                published += 1
                assert published < 1000
            assert published > 40
            status, _, err = ended(process)
        finally:
            process.kill()
            process.communicate()
    assert status == 1
    assert "Nothing was appended. Free some room" in err
    assert int(err.split("rtmw: ")[1].split(" ")[0]) == published - 9, "8 in the queue, and the one at hand"


def stored_log(path: Path, kind: Any, values: list[Any], key: str | None) -> Path:
    with rtmw.Log(path, kind) as log:
        for value in values:
            log.append(value, key=key)
    return path


def test_typed_records_are_published_again_on_the_topic_that_is_their_key(
    run: Run, domain: rtmw.Domain, tmp_path: Path
) -> None:
    alarm = Alarm("A1", "pH", value=7.5)
    folder = stored_log(tmp_path / "log", Alarm, [alarm] * 3, "river/alarm")
    with rtmw.Subscriber("river/alarm", Alarm, domain=domain, reliability=RELIABLE) as taker:
        status, out, _ = run("log", "replay", str(folder), "--rate", "max", "--wait", "1")
        assert [sample.value for sample in taker.take_many(10)] == [alarm] * 3
    assert status == 0
    assert out.startswith("published 3 messages, ")


def test_replay_waits_for_a_full_subscriber_and_loses_nothing(run: Run, domain: rtmw.Domain, tmp_path: Path) -> None:
    folder = stored_log(tmp_path / "log", bytes, [b"%d" % number for number in range(3000)], None)
    taken: list[bytes] = []

    def take(sample: rtmw.Sample[bytes]) -> None:
        taken.append(bytes(sample.data))

    with rtmw.Subscriber("again", domain=domain, reliability=RELIABLE, depth=4) as taker, rtmw.Listener(taker, take):
        status, out, _ = run("log", "replay", str(folder), "--topic", "again", "--rate", "max", "--json")
        eventually(lambda: len(taken) == 3000)
    assert (status, json.loads(out)["published"]) == (0, 3000)
    assert taken == [b"%d" % number for number in range(3000)]


def test_records_without_a_topic_for_a_key_need_one_by_name(run: Run, domain: rtmw.Domain, tmp_path: Path) -> None:
    folder = stored_log(tmp_path / "log", bytes, [b"x"], None)
    status, _, err = run("log", "replay", str(folder))
    assert status == 1
    assert "name one with --topic" in err


def test_replay_begins_at_a_position_or_a_time(run: Run, domain: rtmw.Domain, tmp_path: Path) -> None:
    folder = stored_log(tmp_path / "log", bytes, [b"a", b"b"], "t")
    second = records(folder)[1].position
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert json.loads(run("log", "replay", str(folder), "--start", str(second), "--json")[1])["published"] == 1
    assert json.loads(run("log", "replay", str(folder), "--start", tomorrow, "--json")[1])["published"] == 0
    status, _, err = run("log", "replay", str(folder), "--start", str(second + 1))
    assert (status, "position" in err) == (1, True)


def test_the_rate_scales_the_time_between_records(run: Run, domain: rtmw.Domain, tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        log.append(b"a", key="t")
        first = next(log.read()).time_ns
        eventually(lambda: datetime.now(UTC).timestamp() > first / 1e9 + 0.5)
        log.append(b"b", key="t")
    with rtmw.Subscriber("t", domain=domain) as taker:
        assert run("log", "replay", str(tmp_path / "log"), "--rate", "2")[0] == 0
        one, two = taker.take_many(2)
        assert two.source_time_ns - one.source_time_ns >= 0.25e9
