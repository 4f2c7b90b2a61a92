"""The questions of transfers: what is accepted is counted, each level has its time, and a node ends with its block."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import rtmw
from bench.cases import RTMW, CannotMeasure, Case
from bench.letters import answers, serving
from bench.questions import transfer_between, transfer_file, transfer_levels, transfer_rate, transfer_resume
from bench.questions.transfer_rate import APPENDS, TOPIC
from bench.questions.transfer_resume import RSYNC
from bench.rsync import DAEMON, SSH, program
from bench.stage import Stage


def rate(system: str, **options: object) -> float:
    """What is counted in a second, in ever longer time: a busy machine may do nothing in a tenth of a second."""
    for seconds in (0.1, 1.0, 10.0):
        case = Case("", (system,), {"seconds": seconds, **options})
        if (found := transfer_rate.measure(Stage("8M"), system, case)[system].value) > 0:
            return found
    return 0


@pytest.mark.parametrize("part", ["tasks", "threads"])
@pytest.mark.parametrize("system", [RTMW, APPENDS])
def test_letters_and_appends_of_tasks_and_threads_are_counted(system: str, part: str) -> None:
    assert rate(system, writers=8, delivery="LOG", part=part) > 0


@pytest.mark.parametrize(("system", "delivery"), [(RTMW, "NORMAL"), (RTMW, "LOG"), (APPENDS, "LOG")])
def test_letters_and_appends_in_batches_are_counted(system: str, delivery: str) -> None:
    assert rate(system, delivery=delivery, part="batches") > 0


def test_letters_are_compared_with_messages_of_their_size_a_second_on_a_topic() -> None:
    assert rate(TOPIC, writers=8, delivery="NORMAL") > 1000


@pytest.mark.parametrize("question", [transfer_rate, transfer_between])
def test_a_peer_that_cannot_be_had_has_a_reason(question: Any) -> None:
    with pytest.raises(CannotMeasure, match="relay_rate"):
        question.measure(Stage("8M"), question.RABBITMQ, question.cases(quick=True)[0])


@pytest.mark.parametrize("level", transfer_levels.LEVELS)
def test_each_level_has_its_time(level: str) -> None:
    case = Case("", (RTMW,), {"seconds": 0.1, "delivery": "NORMAL", "level": level})
    figures = transfer_levels.measure(Stage("8M"), RTMW, case)[RTMW]
    assert figures.value == figures.percentiles["p50"] > 0


def test_the_node_ends_with_its_block(domain: rtmw.Domain, tmp_path: Path) -> None:
    with serving(domain.id, tmp_path):
        assert answers(domain.id)
    assert not answers(domain.id)


@pytest.mark.parametrize(("system", "tls"), [(RTMW, False), (DAEMON, False), (SSH, True)])
def test_a_file_has_its_time_from_node_to_node(system: str, tls: bool) -> None:
    needs(system)
    case = Case("", (system,), {"mib": 16, "tls": tls})
    assert transfer_file.measure(Stage("8M"), system, case)[system].value > 0


@pytest.mark.parametrize("system", [RTMW, RSYNC])
def test_a_file_that_was_cut_goes_on_after_a_time(system: str) -> None:
    needs(system)
    case = Case("", (system,), {"mib": 128})
    assert transfer_resume.measure(Stage("8M"), system, case)[system].value > 0


def needs(system: str) -> None:
    if system == RTMW:
        return
    if shutil.which("rsync") is None:
        pytest.skip("rsync is not installed: apt-get install rsync")
    if system == SSH and shutil.which("sshd", path=os.defpath + os.pathsep + "/usr/sbin") is None:
        pytest.skip("sshd is not installed: apt-get install openssh-server")


def test_what_a_peer_lacks_is_said_with_the_package() -> None:
    with pytest.raises(ImportError, match="apt-get install something"):
        program("no-such-program", "something")
