"""Processes that leave without a word, and pids that come back: whatever they had is swept, by whoever comes next."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from tests.books import assert_whole, examine
from tests.child import Spawn


@pytest.fixture
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """Whole again after each test."""
    with rtmw.Domain(domain_id, pool="1M", reserve=0) as attached:
        yield attached
        assert_whole(attached)


HOLDING = """
    import asyncio, os, sys, threading
    import rtmw
    publisher, subscriber = rtmw.Publisher("a"), rtmw.Subscriber("a")
    for _ in range(20):
        publisher.publish(bytes(10_000))
    samples = subscriber.take_many(10)
    views = [sample.data for sample in samples]
    loan = publisher.loan(50_000)
    view = loan.data
"""

DEPARTURES = {
    "returns": "",
    "exits": "sys.exit(0)",
    "exits from a cycle": "cycle = [publisher, subscriber, loan, view, samples]; cycle.append(cycle); sys.exit(0)",
    "exits without a goodbye": "os._exit(0)",
    "raises": "raise SystemExit(0) from ValueError()",
    "exits with a listener": "listener = rtmw.Subscriber('a').listen(print); sys.exit(0)",
    "exits while a thread waits": """
        threading.Thread(target=rtmw.Subscriber('b').receive, daemon=True).start()
        sys.exit(0)
        """,
    "exits from asyncio": """
        async def main():
            waiting = asyncio.create_task(anext(rtmw.Subscriber('b')))
            await asyncio.sleep(0.05)
            sys.exit(0)
        asyncio.run(main())
        """,
}


@pytest.mark.parametrize("departure", DEPARTURES)
def test_a_process_that_exits_without_closing_ends_at_once_and_leaves_nothing(
    departure: str, domain: rtmw.Domain, spawn: Spawn
) -> None:
    child = spawn(textwrap.dedent(HOLDING) + textwrap.dedent(DEPARTURES[departure]))
    assert child.wait() == 0
    books = examine(domain)
    assert (books.descriptors_loaned, books.descriptors_held) == (0, 0)
    assert [view.pid for view in books.participants] == [os.getpid()]


def test_who_attaches_next_sweeps_after_the_dead(domain_id: int, spawn: Spawn) -> None:
    dead = spawn(textwrap.dedent(HOLDING) + "os._exit(0)")
    assert dead.wait() == 0
    with rtmw.Domain(domain_id) as domain:
        assert [view.pid for view in rtmw.observe.examine(domain).participants] == [os.getpid()]
        assert_whole(domain)


REUSE = f"""
    import os, signal, sys, time
    sys.path[:0] = {sys.path!r}
    import rtmw
    from rtmw import observe
    from tests.books import assert_whole

    number = int(os.environ["RTMW_DOMAIN"])

    def fork_as(pid, job):
        # the kernel gives out the number after the last one
        for _ in range(50):
            with open("/proc/sys/kernel/ns_last_pid", "w") as last:
                last.write(str(pid - 1))
            made = os.fork()
            if made == 0:
                job()
                os._exit(0)
            if made == pid:
                return made
            os.kill(made, signal.SIGKILL)
            os.waitpid(made, 0)
        sys.exit("pid %d could not be had" % pid)

    def attached():
        publisher, subscriber = rtmw.Publisher("a"), rtmw.Subscriber("a")
        publisher.publish(bytes(5000))
        sample, loan = subscriber.receive(10.0), publisher.loan(20_000)
        os.write(writing, b".")
        signal.pause()

    try:
        with rtmw.Domain(number, pool="1M") as domain:
            reading, writing = os.pipe()
            pid = fork_as(4242, attached)
            os.read(reading, 1)
            assert pid in [view.pid for view in observe.examine(domain).participants]
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            time.sleep(0.05)  # a start time is counted in hundredths of a second
            stranger = fork_as(4242, signal.pause)
            (view,) = [view for view in observe.examine(domain).participants if view.pid == 4242]
            assert not view.alive
            assert_whole(domain)
            print("swept")
            again = fork_as(4300, attached)
            os.read(reading, 1)
            assert again in [view.pid for view in observe.examine(domain, fix=True).participants if view.alive]
            os.kill(stranger, signal.SIGKILL)
            os.kill(again, signal.SIGKILL)
            os.waitpid(again, 0)
            assert_whole(domain)
            print("lives")
    finally:
        rtmw.Domain.unlink(number)
"""


def may_choose_pids() -> bool:
    probe = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", "echo 100 > /proc/sys/kernel/ns_last_pid"]
    try:
        return subprocess.run(probe, capture_output=True, timeout=20, check=False).returncode == 0
    except FileNotFoundError:
        return False


# Proves G24.
def test_a_participant_whose_pid_another_process_has_now_is_swept(domain_id: int, tmp_path: Path) -> None:
    if not may_choose_pids():
        pytest.skip("a pid namespace whose next pid can be chosen is not permitted here")
    script = tmp_path / "reuse.py"
    script.write_text(textwrap.dedent(REUSE))
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, str(script)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout.split() == ["swept", "lives"], result.stderr
    assert result.returncode == 0, result.stderr


# Proves G24.
def test_a_process_of_another_pid_namespace_is_not_taken_for_dead(domain: rtmw.Domain, tmp_path: Path) -> None:
    if not may_choose_pids():
        pytest.skip("a pid namespace is not permitted here")
    script = tmp_path / "stranger.py"
    script.write_text(
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import rtmw\np = rtmw.Publisher('a'); loan = p.loan(100)\nprint('in', flush=True)\ninput()\nloan.publish()\n"
        "del loan\np.close()\nprint('done', flush=True)\n"
    )
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, str(script)]
    with (
        rtmw.Subscriber("a", domain=domain) as subscriber,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger,
    ):
        assert stranger.stdin is not None
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "in\n"
        assert examine(domain).descriptors_loaned == 1
        stranger.stdin.write("\n")
        stranger.stdin.flush()
        assert subscriber.receive(20.0).data == bytes(100)
        assert stranger.wait(20.0) == 0
