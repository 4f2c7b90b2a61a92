"""Who lives and who is dead is told rightly: whatever /proc shows, in other namespaces, after exec and fork."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw import shm
from tests import namespaces
from tests.books import assert_usable, assert_whole, examine
from tests.child import Child, Spawn

RELIABLE = rtmw.Reliability.RELIABLE
UNSHARE_PID = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


@pytest.fixture
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """Whole again after each test."""
    with rtmw.Domain(domain_id, pool="1M") as attached:
        yield attached
        assert_whole(attached)


def pids(domain: rtmw.Domain) -> set[int]:
    """Of all participants, after a sweep."""
    return {view.pid for view in examine(domain).participants}


SUBSCRIBED = """
import ctypes, os, signal, subprocess, sys, threading, time
import rtmw
from rtmw import observe
subscriber = rtmw.Subscriber("a", reliability=rtmw.Reliability.RELIABLE, depth=2)
libc = ctypes.CDLL(None)

def say(*words):
    print(*words, flush=True)

"""


def fill(domain: rtmw.Domain) -> rtmw.Publisher[bytes]:
    """A publisher that has filled the queue of the RELIABLE subscriber of `SUBSCRIBED`."""
    publisher = rtmw.Publisher("a", domain=domain, reliability=RELIABLE, max_blocking=0.1)
    assert publisher.wait_for_subscribers(timeout=20)
    assert [publisher.publish(b"unread") for _ in range(3)] == [True, True, False]
    return publisher


# Proves G27.
def test_a_process_that_became_another_program_is_dead(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(SUBSCRIBED + "say('in'); input(); os.execv('/bin/sh', ['sh', '-c', 'echo another program; cat'])")
    assert child.line() == "in"
    with fill(domain) as publisher:
        child.send()
        assert child.line() == "another program"
        assert child.alive
        assert publisher.publish(b"nobody is in the way")
    assert pids(domain) == {os.getpid()}


# Proves G24.
def test_a_process_whose_main_thread_has_ended_lives(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        SUBSCRIBED
        + """
def go_on():
    while open(f"/proc/{os.getpid()}/stat").read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.001)
    say("alone")
    input()
    say(subscriber.receive(10.0).value.decode())
    os._exit(0)

threading.Thread(target=go_on).start()
libc.syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)  # exit: of this thread alone
"""
    )
    assert child.line() == "alone"
    assert pids(domain) == {os.getpid(), child.pid}
    with rtmw.Publisher("a", domain=domain, reliability=RELIABLE) as publisher:
        assert publisher.publish(b"hello")
        child.send()
        assert child.line() == "hello"
        assert child.wait() == 0


CHILDREN = {
    "a forked child that never uses rtmw": "os.fork() or (sys.stdin.close(), signal.pause())",
    "a child of the bare system call": "libc.syscall({'x86_64': 57}[os.uname().machine]) or libc.pause()",
    "another program that gets all descriptors": "subprocess.Popen(['sleep', '60'], close_fds=False)",
    "another program by posix_spawn": "os.posix_spawn('/bin/sleep', ['sleep', '60'], os.environ)",
}


@pytest.mark.parametrize("made", CHILDREN)
# Proves G27.
def test_a_parent_is_dead_though_a_child_of_its_lives(made: str, domain: rtmw.Domain, spawn: Spawn) -> None:
    if "x86_64" in CHILDREN[made] and os.uname().machine != "x86_64":
        pytest.skip("fork is no system call of this machine")
    child = spawn(SUBSCRIBED + f"os.setpgid(0, 0)\n{CHILDREN[made]}\nsay('in'); signal.pause()")
    assert child.line() == "in"
    with fill(domain) as publisher:
        child.kill()
        try:
            os.killpg(child.pid, 0)  # the child of the child is there
            assert publisher.publish(b"nobody is in the way")
            assert pids(domain) == {os.getpid()}
        finally:
            os.killpg(child.pid, signal.SIGKILL)


def test_several_attachments_of_one_process_live_and_leave_each_for_itself(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        """
        import os
        from rtmw import shm
        number = int(os.environ["RTMW_DOMAIN"])
        first, second, third = (shm.Region(number) for _ in range(3))
        print(first.sweep() + second.sweep() + third.sweep(), flush=True)
        input()
        del second
        print("left", flush=True)
        input()
        """
    )
    assert child.line() == "0"
    assert [view.pid for view in examine(domain).participants].count(child.pid) == 3
    child.send()
    assert child.line() == "left"
    assert [view.pid for view in examine(domain).participants].count(child.pid) == 2
    child.kill()
    assert pids(domain) == {os.getpid()}


# Proves G24.
def test_a_process_of_another_pid_namespace_is_judged_as_any_other(domain: rtmw.Domain, tmp_path: Path) -> None:
    namespaces.require(*UNSHARE_PID, "true")
    source = SUBSCRIBED + "say('in'); input(); say(subscriber.receive(10.0).value.decode()); signal.pause()"
    with namespaces.start(UNSHARE_PID, source, tmp_path / "stranger.py") as stranger:
        assert namespaces.line(stranger) == "in"
        assert len(examine(domain).participants) == 2
        with rtmw.Publisher("a", domain=domain, reliability=RELIABLE, max_blocking=10.0) as publisher:
            assert publisher.publish(b"lives")
            namespaces.send(stranger)
            assert namespaces.line(stranger) == "lives"
            assert [publisher.publish(b"unread") for _ in range(2)] == [True, True]
            stranger.kill()
            stranger.wait(20)
            assert publisher.publish(b"nobody is in the way")
    assert pids(domain) == {os.getpid()}


HIDDEN = """
    import os
    import rtmw
    os.setgid(65534); os.setuid(65534)
    domain = rtmw.Domain(int(os.environ["RTMW_DOMAIN"]), pool="1M", group=65534)
    print(os.path.exists(f"/proc/{os.environ['OTHER']}"), flush=True)
    input()
    publisher = rtmw.Publisher("a", domain=domain, reliability=rtmw.Reliability.RELIABLE, max_blocking=0.1)
    print([publisher.publish(b"unread") for _ in range(3)], flush=True)
    input()
    print(publisher.publish(b"nobody is in the way"), flush=True)
"""


# Proves G24.
def test_a_process_that_proc_hides_is_not_taken_for_dead(domain_id: int, spawn: Spawn, tmp_path: Path) -> None:
    hide = "mount -t proc -o hidepid=2 proc /proc"
    namespaces.require("unshare", "-m", "sh", "-c", hide)
    command = ["unshare", "-m", "sh", "-c", f'{hide} && exec "$0" "$@"']
    env = {"OTHER": str(os.getpid())}
    with namespaces.start(command, HIDDEN, tmp_path / "hidden.py", env) as publisher:
        assert namespaces.line(publisher) == "False"
        subscriber = spawn(f"import os\nos.setgroups([65534])\n{SUBSCRIBED}say('in'); signal.pause()")
        assert subscriber.line() == "in"
        namespaces.send(publisher)
        assert namespaces.line(publisher) == "[True, True, False]"
        subscriber.kill()
        namespaces.send(publisher)
        assert namespaces.line(publisher) == "True"
        assert publisher.wait(20) == 0


# Proves G24.
def test_a_process_of_another_time_namespace_takes_nobody_for_dead(
    domain: rtmw.Domain, spawn: Spawn, tmp_path: Path
) -> None:
    command = ["unshare", "-T", "--boottime", "5000", "--fork", "--kill-child"]
    namespaces.require(*command, "true")
    child = spawn(SUBSCRIBED + "say('in'); input(); say(subscriber.receive(10.0).value.decode())")
    assert child.line() == "in"
    sweep = "import os\nimport rtmw\nprint(rtmw.Domain(int(os.environ['RTMW_DOMAIN'])).region.sweep())"
    with namespaces.start(command, sweep, tmp_path / "sweep.py") as stranger:
        assert namespaces.line(stranger) == "0"
    assert child.pid in pids(domain)
    with rtmw.Publisher("a", domain=domain, reliability=RELIABLE) as publisher:
        assert publisher.publish(b"still here")
        child.send()
        assert child.line() == "still here"
        assert child.wait() == 0


MONOTONIC = ["unshare", "-T", "--monotonic", "5000", "--fork", "--kill-child"]
REFUSED = """
import os
import rtmw

for look_on in (False, True):
    try:
        rtmw.Domain(int(os.environ["RTMW_DOMAIN"]), observe=look_on)
        print("attached", flush=True)
    except rtmw.DomainError as error:
        print(error, flush=True)
"""


# Proves G47.
def test_a_process_whose_monotonic_clock_shows_another_time_is_refused_with_the_reason(
    domain: rtmw.Domain, tmp_path: Path
) -> None:
    namespaces.require(*MONOTONIC, "true")
    with namespaces.start(MONOTONIC, REFUSED, tmp_path / "stranger.py") as stranger:
        for _ in range(2):
            assert "time namespace than this process" in namespaces.line(stranger)
    assert pids(domain) == {os.getpid()}


# Proves G47.
def test_programs_of_one_time_namespace_meet_and_others_stay_out(domain_id: int, tmp_path: Path) -> None:
    namespaces.require(*MONOTONIC, "true")
    meeting = """
        import os
        import rtmw
        with rtmw.Domain(int(os.environ["RTMW_DOMAIN"]), pool="8M") as domain:
            child = os.fork()
            if child == 0:
                rtmw.Publisher("t", domain=int(os.environ["RTMW_DOMAIN"]), history=1).publish(b"valid", lifetime=60.0)
                os._exit(0)
            os.waitpid(child, 0)
            print(rtmw.Subscriber("t", domain=domain, history=1).receive(20.0).value.decode(), flush=True)
            input()
    """
    with namespaces.start(MONOTONIC, meeting, tmp_path / "inside.py") as inside:
        assert namespaces.line(inside) == "valid"
        with pytest.raises(rtmw.DomainError, match="time namespace than this process"):
            rtmw.Domain(domain_id)
        namespaces.send(inside)


# Proves G47.
def test_a_process_that_cannot_tell_its_own_clock_makes_no_domain_and_attaches_to_none(
    domain_id: int, tmp_path: Path
) -> None:
    namespaces.require(*MONOTONIC, "true")
    unshared = "import ctypes\nassert ctypes.CDLL(None).unshare(0x80) == 0\n" + REFUSED
    with namespaces.start([], unshared, tmp_path / "maker.py") as maker:
        assert "time namespace than this process" in namespaces.line(maker)
        assert "does not exist" in namespaces.line(maker)
    with rtmw.Domain(domain_id, pool="8M"), namespaces.start([], unshared, tmp_path / "unshared.py") as stranger:
        for _ in range(2):
            assert "time namespace than this process" in namespaces.line(stranger)


LOST = """
publisher, number = rtmw.Publisher("b"), int(os.environ["RTMW_DOMAIN"])
kept = rtmw.Domain(number)

def swept(use):
    try:
        return repr(use())
    except rtmw.SweptError as error:
        return "swept" if "closerange" in str(error) else str(error)

def wait():
    print("waited:", swept(lambda: rtmw.Subscriber.receive(waiting, 60.0)), flush=True)

waiting = rtmw.Subscriber("c")
sleeper = threading.Thread(target=wait)
sleeper.start()
say("in")
input()
os.closerange(3, 1000)
say("closed")
input()
sleeper.join()
say(*(swept(use) for use in (
    lambda: publisher.publish(b"x"),
    lambda: publisher.publish_many([b"x"]),
    lambda: publisher.loan(2000),
    lambda: subscriber.take(),
    lambda: subscriber.take_many(2),
    lambda: subscriber.receive(0.1),
    lambda: rtmw.Publisher("d", domain=kept),
    lambda: rtmw.Subscriber("d", domain=kept),
    lambda: observe.examine(kept, fix=True),
    lambda: observe.topics(kept),
)))
subscriber.close(); publisher.close(); waiting.close(); kept.close()
with rtmw.Publisher("d") as p, rtmw.Subscriber("d") as s:
    say(p.publish(b"anew"), s.receive(10.0).value.decode())
say("done")
input()
"""


def lose(spawn: Spawn) -> Child:
    """A process that has closed all descriptors that it does not know."""
    child = spawn(SUBSCRIBED + LOST)
    assert child.line() == "in"
    child.send()
    assert child.line() == "closed"
    return child


# Proves G28.
def test_a_process_that_lost_its_descriptor_and_was_swept_says_so_and_can_begin_anew(
    domain: rtmw.Domain, spawn: Spawn
) -> None:
    child = lose(spawn)
    assert pids(domain) == {os.getpid()}
    heirs = [shm.Region(domain.id) for _ in range(2)]
    with rtmw.Publisher("b", domain=domain) as publisher, rtmw.Subscriber("b", domain=domain) as subscriber:
        child.send()
        assert child.line() == "waited: swept"
        assert child.line() == " ".join(["swept"] * 10)
        assert child.line() == "True anew"
        assert child.line() == "done"
        assert publisher.publish(b"mine")
        assert subscriber.receive(10.0).value == b"mine"
        child.send()
        assert child.wait() == 0
    del heirs
    assert_usable(domain)


# Proves G28.
def test_a_process_that_lost_its_descriptor_takes_nobody_for_dead(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        """
        import os
        import rtmw
        domain = rtmw.Domain(int(os.environ["RTMW_DOMAIN"]))
        os.closerange(3, 1000)
        files = [open("/dev/null") for _ in range(20)]
        print(domain.region.sweep(), flush=True)
        domain.close()
        del domain
        print(all(os.fstat(file.fileno()) for file in files), flush=True)
        """
    )
    assert child.line() == "0"
    assert child.line() == "True"
    assert child.wait() == 0


NO_LOCKS = """
    import ctypes, os, struct, rtmw
    FCNTL, OFD_SETLK, ERRNO, ALLOW = {number}, 37, 0x00050000, 0x7FFF0000
    LOAD, IS, RETURN = 0x20, 0x15, 0x06
    rules = [(LOAD, 0, 0, 0), (IS, 0, 3, FCNTL), (LOAD, 0, 0, 24), (IS, 0, 1, OFD_SETLK)]
    rules += [(RETURN, 0, 0, ERRNO | {errno}), (RETURN, 0, 0, ALLOW)]
    packed = b"".join(struct.pack("=HBBI", *rule) for rule in rules)
    buffer = ctypes.create_string_buffer(packed, len(packed))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(rules), ctypes.addressof(buffer)))
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
    print(prctl(38, 1, None, 0, 0) == 0 and prctl(22, 2, ctypes.addressof(program), 0, 0) == 0, flush=True)
    try:
        rtmw.Domain(int(os.environ["RTMW_DOMAIN"]))
    except PermissionError as error:
        print(type(error).__name__, error, flush=True)
"""
FCNTL = {"x86_64": 72, "aarch64": 25}


@pytest.mark.parametrize("errno", [1, 22, 38])
def test_a_sandbox_that_refuses_file_locks_is_an_error_with_what_to_allow(
    errno: int, domain: rtmw.Domain, spawn: Spawn
) -> None:
    number = FCNTL.get(os.uname().machine)
    if number is None:
        pytest.skip(f"the system calls of {os.uname().machine} are not known here")
    child = spawn(NO_LOCKS.format(number=number, errno=errno))
    if child.line() != "True":
        pytest.skip("seccomp filters are not permitted here")
    told = child.line()
    assert told.startswith("NotPermitted")
    for part in (f"domain {domain.id}", os.strerror(errno), "F_OFD_SETLK", "seccomp"):
        assert part in told
