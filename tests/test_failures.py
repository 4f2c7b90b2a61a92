"""What the system refuses is said in words: what it was, and what to do."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

import rtmw
from rtmw.shm import _core
from rtmw.shm.failures import failure
from tests.child import Spawn

HEADER = Path(_core.__file__).with_name("rtmw.h").read_text()

WITHOUT_DESCRIPTORS = """
    import os, resource
    import rtmw
    from rtmw.net.dds.library import Engine
    from rtmw.recorder.sources import Collector
    from rtmw.player.feeder import Player
    number = int(os.environ["RTMW_DOMAIN"])
    resource.setrlimit(resource.RLIMIT_NOFILE, (7, 7))
    for spare in (0, 1):
        taken = []
        try:
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        for descriptor in taken[:spare]:
            os.close(descriptor)
        for use in (
            lambda: rtmw.Domain(number),
            lambda: Engine(number),
            lambda: Collector(number, 1, 1 << 20),
            lambda: Player(number, 0, 0),
        ):
            try:
                print("no error:", use(), flush=True)
            except Exception as error:
                print(isinstance(error, (OSError, rtmw.RtmwError)) or type(error).__name__, error, flush=True)
        for descriptor in taken[spare:]:
            os.close(descriptor)
"""


def test_who_may_open_no_more_files_is_told_so_and_what_to_do(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(WITHOUT_DESCRIPTORS)
    for _ in range(8):
        told = child.line()
        assert told.startswith("True ")
        for part in ("Too many open files", "ulimit -n"):
            assert part in told
    assert child.wait() == 0


FILENO_WITHOUT_DESCRIPTORS = """
    import resource
    import rtmw
    domain = rtmw.Domain()
    subscriber = rtmw.Subscriber("pump/speed", domain=domain)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    for fileno in (subscriber.fileno, domain.region.fileno):
        try:
            print("no error:", fileno(), flush=True)
        except OSError as error:
            print(error, flush=True)
"""


def test_a_descriptor_to_poll_that_cannot_be_had_is_told_with_its_topic_and_what_to_do(
    domain: rtmw.Domain, spawn: Spawn
) -> None:
    child = spawn(FILENO_WITHOUT_DESCRIPTORS)
    for subject in ("topic 'pump/speed'", f"domain {domain.id}"):
        told = child.line()
        for part in (subject, "Too many open files", "ulimit -n"):
            assert part in told
    assert child.wait() == 0


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES])
def test_what_a_system_call_failed_with_is_said_with_advice(number: int) -> None:
    told = _core.explain(_core.SYSTEM, number)
    assert os.strerror(number) in told
    assert len(told.split(": ")) == 3


CODES = re.findall(r"^    RTMW_([A-Z_]+)\b", HEADER[: HEADER.index("} rtmw_code;")], re.MULTILINE)


@pytest.mark.parametrize(("number", "name"), list(enumerate(CODES)), ids=CODES)
def test_every_code_of_the_core_has_words_and_an_exception(
    number: int, name: str, request: pytest.FixtureRequest
) -> None:
    assert _core.explain(number, 0) != _core.explain(-1, 0)
    assert getattr(_core, name, number) == number
    subject: object = "pump/speed"
    if name == "TIMEOUT":  # the words are those of the subscriber that waited
        subject = rtmw.Subscriber("pump/speed", domain=request.getfixturevalue("domain"))
    error = failure(number, subject, 0)
    assert isinstance(error, (rtmw.RtmwError, ValueError, TimeoutError, OSError))
    assert "pump/speed" in str(error)


def test_the_header_names_the_largest_pool_that_is_taken() -> None:
    assert f"above {_core.LARGEST_POOL >> 30} GiB" in HEADER
    assert f"to {_core.LARGEST_POOL >> 30} GiB" in _core.explain(CODES.index("BAD_SIZE"), 0)


def test_a_wait_that_another_thread_ended_is_not_called_a_signal_alone() -> None:
    assert "another thread" in _core.explain(CODES.index("INTERRUPTED"), 0)


def test_other_codes_say_nothing_of_a_system_call() -> None:
    assert _core.explain(_core.TIMEOUT, errno.EMFILE) == "the time is up"
