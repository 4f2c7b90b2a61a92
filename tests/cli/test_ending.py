"""How the command ends when somebody ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

import rtmw
from tests.whole import sample

ROOT = Path(__file__).parents[2]


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rtmw", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def test_ctrl_c_ends_a_command_quietly_with_status_130(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a", domain=domain):
        process = start("topic", "hz", "--window", "0.1")
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "")


def test_ctrl_c_ends_a_command_that_waits_for_messages(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("nothing", domain=domain) as publisher:
        process = start("topic", "echo", "nothing")
        assert publisher.wait_for_subscribers(timeout=20)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "")


LOADED = [
    ("rtmw.profiles", "top", -signal.SIGINT),
    ("rtmw.shm", "top", -signal.SIGINT),
    ("rtmw.subscriber", "top", -signal.SIGINT),
    ("rtmw.cli.command", "--version", 130),
    ("rtmw.net.settings", "node", 130),
    ("rtmw.cli.top", "top", 130),
]
"""A module, a command that imports it, and how that ends by Ctrl-C just then."""


@pytest.mark.parametrize(("module", "command", "status"), LOADED)
def test_ctrl_c_while_a_command_is_still_loading_ends_it_quietly(module: str, command: str, status: int) -> None:
    loading = f"""
        import os, runpy, signal, sys
        class Interrupted:
            def find_spec(self, name, path=None, target=None):
                if name == {module!r}:
                    os.kill(os.getpid(), signal.SIGINT)
        sys.meta_path.insert(0, Interrupted())
        sys.argv = ["rtmw", {command!r}]
        runpy.run_module("rtmw", run_name="__main__")
    """
    words = [sys.executable, "-c", textwrap.dedent(loading)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


def test_the_command_hears_ctrl_c_again_when_rtmw_is_imported() -> None:
    asked = "import sys; sys.argv = ['rtmw']; import rtmw, signal; print(signal.getsignal(signal.SIGINT))"
    words = [sys.executable, "-c", asked]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True)
    assert "default_int_handler" in done.stdout


def test_a_reader_that_goes_away_ends_a_command_quietly(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a", domain=domain):
        process = start("topic", "hz", "--window", "0.05", "--json")
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 141
        assert process.stderr.read() == ""
        process.stderr.close()


def run_into(redirected: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A shell runs the command with its output redirected."""
    command = [sys.executable, "-m", "rtmw", *words]
    script = f'"$@" {redirected}'
    return subprocess.run(
        ["sh", "-c", script, "sh", *command],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("words", [("topic", "list"), ("topic", "list", "--json"), ("metrics",)])
def test_output_that_cannot_be_written_is_one_sentence_and_status_1(
    domain: rtmw.Domain, words: tuple[str, ...]
) -> None:
    with rtmw.Publisher("a", domain=domain):
        done = run_into(">/dev/full", *words)
    assert (done.returncode, done.stderr) == (1, "rtmw: standard output cannot be written: No space left on device\n")


def test_a_command_without_standard_output_does_what_it_is_for(domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("a", str, domain=domain) as subscriber:
        done = run_into(">&-", "topic", "pub", "a", "hello", "--wait", "1")
        assert (done.returncode, done.stderr) == (0, "")
        assert subscriber.receive(timeout=10).value == "hello"


def test_a_character_that_the_encoding_of_the_output_lacks_is_an_escape(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("größe/€", domain=domain):
        for encoding, shown in (("ascii", "gr\\xf6\\xdfe/\\u20ac"), ("utf-8", "größe/€")):
            done = run_into("", "topic", "list", PYTHONIOENCODING=encoding)
            assert (done.returncode, done.stderr) == (0, "")
            assert shown in done.stdout


ENDS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.parametrize(("number", "status"), sample(ENDS, 2))
def test_a_demonstration_that_is_ended_leaves_nothing_behind(number: signal.Signals, status: int) -> None:
    process = start("demo", "--seconds", "60")
    assert process.stdout is not None
    assert process.stdout.readline() == "Starting 13 processes on two hosts, and a node on each ...\n"
    while "messages a second" not in process.stdout.readline():
        assert process.poll() is None
    children = psutil.Process(process.pid).children(recursive=True)
    domains = {int(child.cmdline()[-1]) for child in children if "rtmw.demo" in child.cmdline()}
    assert len(domains) == 2
    process.send_signal(number)
    process.communicate(timeout=40)
    assert process.returncode == status
    end = time.monotonic() + 10
    while any(child.is_running() for child in children) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(child.is_running() for child in children)
    for domain in domains:
        with pytest.raises(rtmw.DomainNotFound):
            rtmw.Domain(domain, create=False)


def test_the_demonstration_ends_with_numbers_that_agree() -> None:
    process = start("demo", "--seconds", "3")
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, out + err
    assert "The numbers agree for all 10 subscribers" in out
    assert "The books balance" in out
    counts = out[out.index("Delivered, and dropped by cause") : out.index("Latency")].splitlines()[2:]
    rows = {row[0]: row for row in map(str.split, counts) if row}
    assert int(rows["display"][5]) > 0, "min_interval thins out"
    assert int(rows["watchdog"][7]) >= 1, "the watchdog sees that the publisher ended"
    assert int(rows["slow-timely"][3]) > 0, "a slow TIMELY subscriber misses messages"
    assert int(rows["slow-reliable"][3]) == 0, "a RELIABLE one misses none"
