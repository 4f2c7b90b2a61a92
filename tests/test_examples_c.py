"""`examples/c/`: a C and a C++ program build without Python, and talk to Python programs."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import rtmw

EXAMPLES = Path(__file__).parents[1] / "examples" / "c"
COUNT = 500

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both programs, built by gcc and g++."""
    if not (shutil.which("gcc") and shutil.which("g++") and shutil.which("make")):
        pytest.skip("needs gcc, g++ and make")
    out = tmp_path_factory.mktemp("examples_c")
    command = ["make", "-s", "-C", str(EXAMPLES), f"OUT={out}", "CC=gcc", "CXX=g++"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def start(built: Path, domain: rtmw.Domain, domain_id: int) -> Start:
    """Starts one of the programs in the test's domain."""

    def run(name: str, *arguments: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "RTMW_DOMAIN": str(domain_id)}
        command = [str(built / name), *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    return run


def test_python_takes_every_message_that_c_publishes(start: Start, domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("from/c", domain=domain, reliability=rtmw.Reliability.RELIABLE, depth=16) as subscriber:
        program = start("publisher", "from/c", str(COUNT))
        samples = [(sample.sequence, sample.value) for sample in (subscriber.receive(timeout=20) for _ in range(COUNT))]
        assert program.communicate(timeout=20) == (f"published {COUNT}\n", "")
        assert samples == [(i, struct.pack("=IId", i, 0, i * 0.5)) for i in range(1, COUNT + 1)]
        assert subscriber.take() is None
        assert program.returncode == 0


def test_cpp_takes_every_message_that_python_publishes(start: Start, domain: rtmw.Domain) -> None:
    texts = [f"{number} " + "x" * (number * 7 % 3000) for number in range(1, COUNT + 1)]
    with rtmw.Publisher("to/cpp", domain=domain, reliability=rtmw.Reliability.RELIABLE, max_blocking=20) as publisher:
        program = start("subscriber", "to/cpp", str(COUNT))
        lines: list[str] = []
        assert publisher.wait_for_subscribers(timeout=20)
        for at in range(0, COUNT, 50):  # less than the depth of the subscriber
            assert all(publisher.publish(text.encode()) for text in texts[at : at + 50])
            assert program.stdout is not None
            lines += [program.stdout.readline() for _ in range(50)]
        assert program.communicate(timeout=20) == ("", "")
        assert program.returncode == 0
        assert lines == [f"{number} {len(text)} {text}\n" for number, text in enumerate(texts, 1)]


def test_a_c_program_says_that_there_is_no_such_domain(start: Start, domain_id: int) -> None:
    rtmw.Domain.unlink(domain_id)
    program = start("publisher", "from/c", "1")
    assert program.communicate(timeout=20) == ("", "attach: there is no such domain\n")
    assert program.returncode == 1
