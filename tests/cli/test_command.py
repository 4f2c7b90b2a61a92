"""The `rtmw` command on real domains: what it prints, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import rtmw
from rtmw import observe
from rtmw.cli import main
from tests.child import Spawn
from tests.cli.command import Run, document
from topics import telemetry


@pytest.mark.parametrize(
    "arguments", [["topic", "list"], ["topic", "info", "x"], ["topic", "hz"], ["topic", "queue", "x"]]
)
def test_a_domain_that_does_not_exist_is_one_sentence_and_status_1(run: Run, arguments: list[str]) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (1, "")
    assert err.startswith("rtmw: ")
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("number", ["999", "-1", "x"])
def test_an_impossible_domain_is_wrong_usage_and_says_which_there_are(
    number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["topic", "list", f"--domain={number}"])
    assert ended.value.code == 2
    assert "domains have numbers from 0 to 232" in capsys.readouterr().err


def test_looking_at_a_domain_does_not_create_it(run: Run, domain_id: int) -> None:
    run("topic", "list")
    run("doctor")
    with pytest.raises(rtmw.DomainNotFound):
        rtmw.Domain(domain_id, create=False)


def test_list_shows_every_topic_with_its_counts(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a/one", domain=domain) as publisher, rtmw.Subscriber("a/one", domain=domain):
        publisher.publish(b"12345")
        publisher.publish(b"678")
        (topic,) = document(run, "topic", "list")
        assert topic == {
            "topic": "a/one",
            "types": ["bytes"],
            "publishers": 1,
            "subscribers": 1,
            "published": 2,
            "bytes": 8,
            "queued": topic["queued"],
            "dropped": 0,
        }
        assert "a/one" in run("topic", "list")[1]


def test_info_shows_qos_drops_by_cause_and_why_a_pair_does_not_match(run: Run, domain: rtmw.Domain) -> None:
    with (
        rtmw.Publisher("a/one", domain=domain, priority=3, depth=16) as publisher,
        rtmw.Subscriber("a/one", domain=domain, reliability=rtmw.Reliability.RELIABLE),
    ):
        publisher.publish(b"x")
        found = document(run, "topic", "info", "a/one")
        assert (found["publishers"][0]["priority"], found["publishers"][0]["depth"]) == (3, 16)
        assert {"missed", "expired", "thinned", "unmatched"} <= found["subscribers"][0].keys()
        assert "RELIABLE is wanted and only ADAPTIVE is offered" in found["mismatches"][0]
        assert "Not matched: " in run("topic", "info", "a/one")[1]


def test_an_unknown_topic_is_answered_with_those_that_look_like_it(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("pump/speed", domain=domain):
        status, _, err = run("topic", "info", "pump/sped")
    assert status == 1
    assert "did you mean pump/speed?" in err


def test_queue_shows_what_lies_there_highest_priority_first(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("q", domain=domain, history=8) as publisher, rtmw.Subscriber("q", domain=domain):
        publisher.publish(b"low", lifetime=60.0)
        publisher.publish(b"high", priority=7)
        high, low = document(run, "topic", "queue", "q")
        assert (high["priority"], high["preview"], high["size"]) == (7, "high", 4)
        assert (low["priority"], low["preview"]) == (0, "low")
        assert low["expires_ns"] > time.time_ns()
        assert "high" in run("topic", "queue", "q")[1]


def test_hz_and_bw_measure_without_subscribing(run: Run, domain: rtmw.Domain) -> None:
    end = threading.Event()

    def publish() -> None:
        with rtmw.Publisher("fast", domain=domain) as publisher:
            while not end.wait(0.005):
                publisher.publish(bytes(100))

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        with rtmw.Publisher("silent", domain=domain):
            status, out, _ = run("topic", "hz", "fast", "--window", "0.2", "--count", "3", "--json")
            lines = [json.loads(line) for line in out.splitlines()]
            assert status == 0
            assert [line["windows"] for line in lines] == [1, 2, 3]
            assert all(20 < line["hz"] < 220 for line in lines)
            assert lines[-1]["hz_min"] <= lines[-1]["hz"] <= lines[-1]["hz_max"]
            assert lines[-1]["bytes_per_s"] == pytest.approx(100 * lines[-1]["hz"])
            assert "fast" in run("topic", "bw", "--window", "0.1", "--count", "1")[1]
            assert document(run, "topic", "info", "fast")["subscribers"] == []
    finally:
        end.set()
        thread.join()


def test_echo_prints_messages_with_their_fields_decoded_without_the_class(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("cpu", telemetry.Cpu, domain=domain, history=4) as publisher:
        publisher.publish(telemetry.Cpu(host="pump", percent=12.5, cores=[1.0, 24.0]))
        status, out, _ = run("topic", "echo", "cpu", "--count", "1", "--timeout", "5")
        assert status == 0
        assert "host: pump" in out
        assert "cores: [1, 24]" in out
        status, out, _ = run("topic", "echo", "cpu", "--count", "1", "--timeout", "5", "--json")
        message = json.loads(out)
        assert (message["topic"], message["sequence"] >= 0) == ("cpu", True)
        assert message["value"]["cores"] == [1.0, 24.0]


def test_a_type_is_shown_by_the_name_that_its_class_was_given(run: Run, domain: rtmw.Domain) -> None:
    with (
        rtmw.Publisher("cpu", telemetry.Cpu, domain=domain, history=1) as publisher,
        rtmw.Subscriber("cpu", telemetry.Disk, domain=domain) as subscriber,
    ):
        publisher.publish(telemetry.Cpu(host="pump"))
        assert document(run, "topic", "list")[0]["types"] == ["telemetry.Cpu", "telemetry.Disk"]
        assert document(run, "topic", "queue", "cpu")[0]["type_name"] == "telemetry.Cpu"
        for command in (["list"], ["info", "cpu"], ["queue", "cpu"], ["echo", "cpu", "--count", "1"]):
            out = run("topic", *command)[1]
            assert ("telemetry.Cpu" in out, "::" in out) == (True, False), out
        (reason,) = subscriber.stats().unheard
    assert reason.endswith("its type is telemetry.Cpu, this one's telemetry.Disk")


def test_echo_picks_a_field_and_filters(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("cpu", telemetry.Cpu, domain=domain, history=16) as publisher:
        for percent in (1.0, 60.0, 2.0, 70.0):
            publisher.publish(telemetry.Cpu(host="pump", percent=percent))
        chosen = ("--history", "16", "--count", "2", "--timeout", "5", "--filter", "percent > 50", "--field", "percent")
        _, out, _ = run("topic", "echo", "cpu", *chosen)
        assert [line for line in out.splitlines() if not line.startswith(("#", "-"))] == ["60", "70"]
        status, _, err = run("topic", "echo", "cpu", "--field", "speed", "--timeout", "5")
        assert status == 1
        assert "has no field speed; it has host, percent" in err


def test_echo_gives_up_after_the_timeout(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("silent", domain=domain):
        status, _, err = run("topic", "echo", "silent", "--timeout", "0.1")
    assert status == 1
    assert "No message to show came on silent within 0.1 s." in err


def test_echo_of_a_domain_that_does_not_exist_does_not_make_it(run: Run, domain_id: int) -> None:
    status, _, err = run("topic", "echo", "t", "--timeout", "0.1")
    assert (status, len(err.splitlines())) == (1, 1)
    assert f"domain {domain_id} does not exist" in err
    assert "--wait waits for the topic." in err
    status, _, err = run("topic", "echo", "t", "--wait", "--timeout", "0.1")
    assert (status, err) == (1, f"rtmw: There is no topic t in domain {domain_id} after 0.1 s.\n")
    with pytest.raises(rtmw.DomainNotFound):
        rtmw.Domain(domain_id, create=False)


def test_echo_of_a_mistyped_name_does_not_make_the_topic(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("pump/speed", domain=domain):
        status, _, err = run("topic", "echo", "pump/sped", "--timeout", "0.1")
        assert status == 1
        assert "did you mean pump/speed? --wait waits for the topic." in err
        assert [view.name for view in observe.topics(domain)] == ["pump/speed"]


def test_echo_waits_for_a_topic_and_its_domain_if_told_to(run: Run, domain_id: int, spawn: Spawn) -> None:
    child = spawn(
        """
        import sys, rtmw
        sys.stdin.readline()
        with rtmw.Publisher("late", history=1) as publisher:
            publisher.publish(b"here")
            sys.stdin.readline()
        """
    )
    child.send()
    status, out, _ = run("topic", "echo", "late", "--wait", "--count", "1", "--timeout", "60")
    assert (status, "here" in out) == (0, True)


def test_echo_with_a_filter_that_no_message_can_pass_says_which_fields_there_are(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("cpu", telemetry.Cpu, domain=domain, history=4) as publisher:
        publisher.publish(telemetry.Cpu(host="pump"))
        for wrong, said in (("speed > 5", "has no field speed; it has host, percent"), ("host > 5", "'pump' as host")):
            status, out, err = run("topic", "echo", "cpu", "--filter", wrong)
            assert (status, out) == (1, "")
            assert said in err


def test_echo_with_a_filter_for_one_of_several_types_shows_that_one(run: Run, domain: rtmw.Domain) -> None:
    with (
        rtmw.Publisher("both", telemetry.Disk, domain=domain, history=4) as other,
        rtmw.Publisher("both", telemetry.Cpu, domain=domain, history=4) as publisher,
    ):
        other.publish_many([telemetry.Disk(host="tank")] * 2)
        publisher.publish(telemetry.Cpu(host="pump", percent=60.0))
        status, out, err = run("topic", "echo", "both", "--history", "9", "--filter", "percent > 5", "--count", "1")
        assert (status, "host: pump" in out, "tank" in out) == (0, True, False)
        assert len(err.splitlines()) == 1
        assert "messages of type telemetry" in err
        assert "has no field percent" in err


def test_pub_publishes_text_as_bytes(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("hello", domain=domain) as subscriber:
        status, out, _ = run("topic", "pub", "hello", "wörld", "--priority", "5", "--count", "3", "--rate", "1000")
        assert (status, out) == (0, "published 3 on hello\n")
        samples = subscriber.take_many(10)
        assert [(sample.value, sample.priority) for sample in samples] == [("wörld".encode(), 5)] * 3


def test_pub_publishes_an_object_of_a_type(run: Run, domain: rtmw.Domain) -> None:
    with telemetry.CPU.subscriber(domain=domain) as subscriber:
        run("topic", "pub", "telemetry/cpu", '{"host": "pump", "cores": [1, 2]}', "--type", "topics.telemetry:Cpu")
        assert subscriber.receive(5).value == telemetry.Cpu(host="pump", cores=[1.0, 2.0])


def test_pub_publishes_json_as_the_type_that_the_topic_carries(run: Run, domain: rtmw.Domain) -> None:
    plain = '{"host": "pump", "source": "cpu", "severity": "WARNING", "text": "hot", "value": 2, "threshold": 1.5}'
    expected = telemetry.Alarm(
        host="pump", source="cpu", severity=telemetry.Severity.WARNING, text="hot", value=2.0, threshold=1.5
    )
    with rtmw.Subscriber("t", telemetry.Alarm, domain=domain) as subscriber:
        assert run("topic", "pub", "t", plain, "--history", "1") == (0, "published 1 on t\n", "")
        assert subscriber.receive(5).value == expected
    status, _, err = run("topic", "pub", "t", plain)
    assert (status, err) == (0, ""), "its queue still holds a message of that type"
    assert observe.topics(domain)[0].types == ("telemetry.Alarm",)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("hello", "t carries telemetry.Cpu, and 'hello' is no JSON: Expecting value"),
        ('{"a": 1}', "there is no a; there are host, percent"),
        ('{"host": "pump"}', "not set"),
        ("7", "expected an object of telemetry::Cpu, found 7"),
    ],
)
def test_pub_refuses_what_is_not_of_the_type_that_the_topic_carries(
    run: Run, domain: rtmw.Domain, value: str, said: str
) -> None:
    with rtmw.Publisher("t", telemetry.Cpu, domain=domain):
        status, out, err = run("topic", "pub", "t", value)
        assert (status, out, said in err) == (1, "", True), err
        (view,) = observe.topics(domain)
        assert (view.types, view.published) == (("telemetry.Cpu",), 0)


def test_pub_says_which_member_has_a_value_that_does_not_fit(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("t", np.dtype(np.int16), domain=domain) as subscriber:
        assert run("topic", "pub", "t", "[1, 2]")[0] == 0
        assert subscriber.receive(5).value.tolist() == [1, 2]
        status, _, err = run("topic", "pub", "t", "[1, 70000]")
        assert (status, "no such array can be made" in err) == (1, True)


def test_pub_publishes_bytes_on_a_typed_topic_only_if_told_to(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("t", telemetry.Cpu, domain=domain), rtmw.Subscriber("t", domain=domain) as subscriber:
        status, _, err = run("topic", "pub", "t", "{}")
        assert status == 1
        assert "t carries 2 types" in err
        assert "--type" in err
        assert run("topic", "pub", "t", "{}", "--bytes")[0] == 0
        assert subscriber.receive(5).value == b"{}"


def test_pub_says_what_is_wrong_with_the_object(run: Run) -> None:
    status, _, err = run("topic", "pub", "t", '{"hots": "pump"}', "--type", "topics.telemetry:Cpu")
    assert status == 1
    assert "This is no Cpu: Cpu has no field hots" in err


def test_pub_waits_for_subscribers_and_says_if_there_are_none(run: Run) -> None:
    status, _, err = run("topic", "pub", "lonely", "x", "--wait", "1", "--timeout", "0.1")
    assert status == 1
    assert "lonely has 0 of 1 subscribers after 0.1 s; nothing was published." in err


def test_pub_ends_with_status_1_if_messages_were_refused(run: Run, domain: rtmw.Domain) -> None:
    reliable = rtmw.Reliability.RELIABLE
    with rtmw.Subscriber("full", domain=domain, reliability=reliable, depth=2):
        status, out, _ = run(
            *("topic", "pub", "full", "x", "--count", "5", "--rate", "10000", "--reliability", "RELIABLE", "--json")
        )
        assert status == 1
        found = json.loads(out)
        assert (found["published"], found["refused"]) == (2, 3)


def test_doctor_shows_books_that_balance(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a", domain=domain) as publisher:
        publisher.publish(b"x")
        found = document(run, "doctor")
        assert found["balanced"]
        books = found["books"]
        places = ("free", "loaned", "queued", "held")
        assert sum(books[f"descriptors_{place}"] for place in places) == books["descriptors"]
        assert found["machine"]
        status, out, _ = run("doctor", "--fix")
        assert status == 0
        assert "The books balance." in out


def test_doctor_shows_how_full_each_table_is_and_who_holds_most(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("camera", domain=domain) as publisher, rtmw.Subscriber("camera", domain=domain):
        publisher.publish_many([bytes(1 << 20)] * 4)
        found = document(run, "doctor")
        tables = {table["name"]: (table["used"], table["size"] > 1) for table in found["tables"]}
        assert tables["topics"] == tables["publishers"] == tables["subscribers"] == (1, True)
        (holding,) = found["holdings"]
        assert (holding["topic"], holding["messages"], holding["slowest"]["behind"]) == ("camera", 4, 4)
        out = run("doctor")[1]
    assert re.search(r"^pool +4\.0 MiB +8\.0 MiB +50 %$", out, re.MULTILINE)
    assert re.search(rf"^camera +4 +4\.0 MiB +50\.0 % .*\({os.getpid()}\): 4 behind$", out, re.MULTILINE)
    assert "Nearly full" not in out


def test_doctor_says_which_table_is_nearly_full(run: Run, domain: rtmw.Domain) -> None:
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(rtmw.LimitReached):
            while True:
                stack.enter_context(rtmw.Publisher("a", domain=domain))
        out = run("doctor")[1]
    assert "Nearly full: publishers." in out
    assert "Nearly full: topics." not in out


def test_doctor_repairs_nothing_in_a_healthy_domain(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a", domain=domain) as publisher, rtmw.Subscriber("a", domain=domain) as subscriber:
        for _ in range(100):
            publisher.publish(b"x")
            subscriber.receive(1)
        status, out, _ = run("doctor", "--fix")
    assert (status, "Repaired" in out) == (0, False)
    assert "Given back: " in out


def test_doctor_of_a_domain_that_does_not_exist_still_checks_the_machine(run: Run) -> None:
    status, out, _ = run("doctor")
    assert status == 0
    assert "/dev/shm" in out
    assert "there are no books to check" in out


def test_doctor_finds_what_creators_that_died_left_behind_and_fix_removes_it(run: Run, domain_id: int) -> None:
    dead = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout.strip()
    left = Path(f"/dev/shm/rtmw.{domain_id}.new.{dead}.{'0' * 15}7")
    left.write_bytes(b"half")
    try:
        assert f"/{left.name}" in document(run, "doctor")["leftovers"]
        assert f"/{left.name} was left by a program that died; --fix removes it." in run("doctor")[1]
        assert left.exists()
        run("doctor", "--fix")
        assert not left.exists()
    finally:
        left.unlink(missing_ok=True)


HOLD = """
    import sys, rtmw
    with rtmw.Publisher("held") as publisher:
        print("ready", flush=True)
        sys.stdin.readline()
"""


def test_clean_refuses_while_somebody_is_attached_unless_forced(run: Run, domain_id: int, spawn: Spawn) -> None:
    child = spawn(HOLD)
    child.line()
    status, _, err = run("clean", "--yes")
    assert status == 1
    assert f"(pid {child.pid})" in err
    status, out, _ = run("clean", "--yes", "--force")
    assert status == 0
    assert out.startswith(f"Removed domain {domain_id}: ")
    assert "rtmw" in out.partition(": ")[2]
    with pytest.raises(rtmw.DomainNotFound):
        rtmw.Domain(domain_id, create=False)


def test_clean_removes_a_domain_that_nobody_uses(run: Run, domain_id: int) -> None:
    rtmw.Domain(domain_id).close()
    status, _, err = run("clean")
    assert status == 1
    assert "--yes" in err
    assert run("clean", "--yes")[0] == 0
    assert run("clean", "--yes")[1] == f"Domain {domain_id} does not exist; nothing was removed.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["topic"],
        ["topic", "list", "--domain", "-1"],
        ["topic", "hz", "--window", "0"],
        ["topic", "echo", "t", "--count", "0"],
        ["topic", "echo", "t", "--filter", "nonsense"],
        ["topic", "pub", "t", "x", "--priority", "8"],
        ["topic", "pub", "t", "x", "--type", "topics.telemetry"],
        ["demo", "--seconds", "nan"],
    ],
)
def test_wrong_usage_ends_with_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
