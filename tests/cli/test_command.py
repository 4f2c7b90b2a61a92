"""The `rtmw` command on real domains: what it prints, and how it ends."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path

import pytest

import rtmw
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


def test_one_topic_and_one_message_are_counted_as_one(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a/one", domain=domain, history=1) as publisher:
        publisher.publish(b"12345")
        assert run("topic", "list")[1].splitlines()[0] == f"Domain {domain.id}: 1 topic"
        assert run("topic", "queue", "a/one")[1].splitlines()[0] == "a/one: 1 message"
        assert run("top", "--once", "--window", "0.01")[1].startswith(f"Domain {domain.id}: 1 topic, ")


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


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        (["tpic"], "rtmw topic"),
        (["topic", "lst"], "rtmw topic list"),
        (["node", "keys", "sho"], "rtmw node keys show"),
        (["recording", "inof", "x"], "rtmw recording info"),
        (["top", "--sort", "topc"], "topic"),
    ],
)
def test_a_mistyped_command_or_choice_is_answered_with_the_nearest_one(
    mistyped: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(mistyped)
    assert ended.value.code == 2
    assert f"there is no {mistyped[-1] if mistyped[-1] != 'x' else 'inof'!r}; did you mean `{meant}`?" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        (["echo", "x"], ["rtmw topic echo"]),
        (["pub", "x", "1"], ["rtmw topic pub"]),
        (["list"], ["rtmw topic list", "rtmw node list"]),
        (["info", "x"], ["rtmw topic info", "rtmw node info", "rtmw recording info", "rtmw log info"]),
        (["node", "sign"], ["rtmw node keys sign"]),
    ],
)
def test_a_word_that_is_a_command_of_other_commands_is_answered_with_those(
    word: list[str], meant: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(word)
    assert ended.value.code == 2
    told = capsys.readouterr().err.partition("did you mean ")[2]
    assert [one for one in meant if f"`{one}`" not in told] == []


def test_a_command_that_is_like_no_other_is_answered_with_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["xyzzy"])
    assert "'topic'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--domain 3 topic list", "rtmw: error: --domain belongs behind the command: rtmw topic list --domain 3"),
        ("--domain=3 topic list --names", "belongs behind the command: rtmw topic list --domain=3 --names"),
        ("topic --json list", "rtmw topic: error: --json belongs behind the command: rtmw topic list --json"),
        ("--domain 3", "an option of a command belongs behind it: rtmw COMMAND --domain 3"),
        ("--domian 3 topic list", "rtmw topic list: error: unknown arguments: --domian"),
        ("topic list --bogus", "rtmw topic list: error: unknown arguments: --bogus"),
        ("topic list extra", "rtmw topic list: error: unknown arguments: extra"),
        ("node --bogus", "rtmw node: error: unknown arguments: --bogus"),
    ],
)
def test_an_option_at_the_wrong_place_is_told_its_place_and_an_unknown_one_with_the_usage_of_its_command(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    err = capsys.readouterr().err
    assert (ended.value.code, told in err) == (2, True), err
    usage = told.partition(": ")[0] if "error" in told else "rtmw"
    assert err.startswith(f"usage: {usage} [-h]")


def test_a_time_that_is_none_is_told_as_it_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["relay", "audit", "show", str(tmp_path), "--since", "yesterday"])
    assert "'yesterday' is no time; write it as 2026-11-29T13:44" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["abc", "999", "-1", ""])
def test_an_impossible_domain_of_the_environment_is_named_with_its_variable(
    number: str, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], domain_id: int
) -> None:
    monkeypatch.setenv("RTMW_DOMAIN", number)
    with pytest.raises(SystemExit) as ended:
        main(["topic", "list"])
    told = f"rtmw topic list: error: the environment says RTMW_DOMAIN={number!r}; it must be a number from 0 to 232"
    assert (ended.value.code, told in capsys.readouterr().err) == (2, True)
    assert f"domain {domain_id} does not exist" in run("topic", "list", "--domain", str(domain_id))[2]


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


def test_clean_names_a_program_once_however_often_it_is_attached(run: Run, domain_id: int, spawn: Spawn) -> None:
    child = spawn(
        f"import rtmw\nkept = [rtmw.shm.Region({domain_id}) for _ in [rtmw.Domain()] * 3]\nprint(len(kept))\ninput()"
    )
    assert child.line() == "3"
    assert run("clean", "--yes")[2].count(f"(pid {child.pid})") == 1


def test_clean_removes_a_domain_that_nobody_uses(run: Run, domain_id: int) -> None:
    rtmw.Domain(domain_id).close()
    status, _, err = run("clean")
    assert status == 1
    assert "--yes" in err
    assert run("clean", "--yes")[0] == 0
    assert run("clean", "--yes")[1] == f"Domain {domain_id} does not exist; nothing was removed.\n"


@pytest.mark.parametrize("exists", [False, True])
# Proves G101.
def test_clean_removes_what_a_creator_left_that_was_killed_before_its_domain_had_a_name(
    exists: bool, run: Run, domain_id: int
) -> None:
    dead = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout.strip()
    left = [f"rtmw.{domain_id}.{half}" for half in (f"new.{dead}.{'0' * 15}7", f"blocks.{'0' * 15}7")]
    for name in left:
        Path("/dev/shm", name).write_bytes(bytes(8192))
    try:
        if exists:
            rtmw.Domain(domain_id, pool="1M").close()
        status, out, _ = run("clean", "--yes")
        assert status == 0
        assert out.startswith(
            f"Removed domain {domain_id}: " if exists else f"Domain {domain_id} does not exist; removed"
        )
        for name in left:
            assert f"{name} (8.0 KiB)" in out
        assert list(Path("/dev/shm").glob(f"rtmw.{domain_id}.*")) == []
    finally:
        for name in left:
            Path("/dev/shm", name).unlink(missing_ok=True)


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
