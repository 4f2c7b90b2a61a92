"""`rtmw log-lines`: the lines of many programs in one order."""

from __future__ import annotations

import json
import logging
import math
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

import rtmw
from rtmw import observe
from rtmw.cli import main
from tests.child import Spawn
from tests.cli.terminal import said_on_a_terminal

PROGRAM = """
import logging
import rtmw

name = input()
logging.basicConfig(handlers=[rtmw.LogHandler(f"log/{name}")], level=logging.INFO)
while True:
    logging.getLogger(name).info(input())
    print("done", flush=True)
"""


@pytest.fixture
def log(domain: rtmw.Domain) -> Iterator[logging.Logger]:
    made = logging.Logger("plant.valve")
    made.addHandler(rtmw.LogHandler("log/pump", domain=domain))
    yield made
    made.handlers[0].close()


def run(domain_id: int, *words: str) -> int:
    return main(["log-lines", "--domain", str(domain_id), *words])


# Proves G388.
def test_the_lines_of_ten_programs_are_shown_in_the_order_of_logging(
    spawn: Spawn, domain_id: int, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = [spawn(PROGRAM) for _ in range(10)]
    for number, program in enumerate(programs):
        program.send(f"p{number}")
    expected = list[tuple[str, str, int]]()
    for turn in range(5):
        for number, program in enumerate(programs):
            program.send(f"turn {turn}")
            assert program.line() == "done"
            expected.append((f"p{number}", f"turn {turn}", program.pid))
    assert run(domain_id, "--count", "50", "--json") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["logger"], line["message"], line["pid"]) for line in found] == expected
    assert {line["topic"] for line in found} == {f"log/p{number}" for number in range(10)}


def test_a_line_says_when_how_grave_who_and_what_and_a_traceback_is_behind_it(
    log: logging.Logger, domain_id: int, capsys: pytest.CaptureFixture[str]
) -> None:
    log.info("first\nsecond", exc_info=ValueError("stuck"))
    assert run(domain_id, "log/pump", "-n", "1") == 0
    first, *more = capsys.readouterr().out.splitlines()
    assert " INFO     " in first
    assert "plant.valve: first" in first
    assert more == ["  second", "  ValueError: stuck"]


def test_a_level_leaves_out_what_is_less_grave(
    log: logging.Logger, domain_id: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for level in (10, 20, 30, 40):
        log.log(level, "level %d", level)
    assert run(domain_id, "--level", "warning", "-n", "2", "--json") == 0
    assert [json.loads(line)["level"] for line in capsys.readouterr().out.splitlines()] == [30, 40]
    assert run(domain_id, "--level", "45", "--timeout", "0.3") == 1
    assert "No line to show came on log/# within 0.3 s." in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(domain_id, "--level", "loud")
    assert "loud is no level" in capsys.readouterr().err


def test_lines_that_a_program_has_dropped_are_told(domain_id: int, capsys: pytest.CaptureFixture[str]) -> None:
    line = rtmw.LogLine(1.8e9, 20, "INFO", "a", "now", "", "pump.py", 7, "pump.py", 1, 3)
    with rtmw.Publisher("log/pump", rtmw.LogLine, history=1, domain=domain_id) as publisher:
        publisher.publish(line)
        assert run(domain_id, "-n", "1") == 0
    assert capsys.readouterr().out.startswith("# pump.py[7] has dropped 3 lines\n")


def test_a_line_whose_time_is_no_date_is_shown(domain_id: int, capsys: pytest.CaptureFixture[str]) -> None:
    with rtmw.Publisher("log/pump", rtmw.LogLine, history=9, domain=domain_id) as publisher:
        for seconds in (math.nan, math.inf, 1e300, -1e18):
            publisher.publish(rtmw.LogLine(seconds, 20, "INFO", "a", "now", "", "pump.py", 7, "pump.py", 1, 0))
        assert run(domain_id, "-n", "4") == 0
    shown = [line.partition(" s INFO")[0] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["at nan", "at inf", "at 1e+300", "at -1e+18"]


def test_without_a_topic_of_lines_it_says_so(
    log: logging.Logger, domain_id: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(domain_id, "lag/#") == 1
    assert "No topic of domain" in capsys.readouterr().err
    with rtmw.Publisher("other", str, domain=domain_id):
        assert run(domain_id, "other", "--timeout", "3") == 1
    assert "rtmw: not shown: 'other'" in capsys.readouterr().err
    assert run(domain_id, "log/pump", "log/pmup", "--level", "ERROR", "--timeout", "3") == 1
    assert capsys.readouterr().err.splitlines()[:-1] == ["rtmw: nobody publishes on log/pmup yet"]


def test_a_topic_that_is_named_is_subscribed_to_before_it_is_there(
    log: logging.Logger, domain: rtmw.Domain, spawn: Spawn, capsys: pytest.CaptureFixture[str]
) -> None:
    child = spawn(
        """
        import logging, rtmw
        with rtmw.Publisher("log/far", rtmw.LogLine) as probe:
            probe.wait_for_subscribers(timeout=60)
        log = logging.Logger("far")
        log.addHandler(rtmw.LogHandler("log/far"))
        log.info("arrived")
        input()
        """
    )
    log.info("here")
    assert run(domain.id, "log/far", "log/pump", "-n", "2", "--timeout", "60", "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["topic"], line["message"]) for line in lines] == [("log/pump", "here"), ("log/far", "arrived")]
    child.send()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("words", [("log-lines", "log/pump"), ("topic", "echo", "log/pump")])
def test_a_signal_ends_it_in_order(
    log: logging.Logger, domain: rtmw.Domain, words: tuple[str, ...], number: signal.Signals, status: int
) -> None:
    log.info("first")
    command = [sys.executable, "-um", "rtmw", *words, "--domain", str(domain.id)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (status, "")
    assert [one.pid for view in observe.topics(domain) for one in view.subscribers] == []


def test_on_a_terminal_lines_are_coloured_by_level_and_steer_nothing(log: logging.Logger, domain_id: int) -> None:
    log.error("grave \x1b[32m")
    log.warning("less")
    log.info("plain")
    words = "log-lines", "--domain", str(domain_id), "-n", "3"
    grave, less, plain = said_on_a_terminal(200, 50, *words).splitlines()
    assert (grave[:5], grave[-4:]) == ("\x1b[31m", "\x1b[0m")
    assert "grave \\x1b[32m" in grave
    assert less.startswith("\x1b[33m")
    assert "\x1b" not in plain
