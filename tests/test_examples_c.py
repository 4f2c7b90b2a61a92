"""`examples/c/`: a C and a C++ program build without Python, and talk to Python programs."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import rtmw

CORE = Path(rtmw.__file__).parent / "shm"
EXAMPLES = Path(__file__).parents[1] / "examples" / "c"
COUNT = 500

EXACT = """
#include "rtmw.h"
rtmw_subscriber_qos ask() {
    rtmw_subscriber_qos qos = RTMW_SUBSCRIBER_QOS;
    rtmw_message_qos message = RTMW_MESSAGE_QOS;
    qos.reliability = RTMW_RELIABLE | RTMW_EXACT;
    qos.depth = static_cast<uint32_t>(-message.priority);
    return qos;
}
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both programs, built by gcc and g++."""
    if not all(map(shutil.which, ("gcc", "g++", "make", "pkg-config"))):
        pytest.skip("needs gcc, g++, make and pkg-config")
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


def test_a_program_says_that_there_is_no_such_domain(start: Start, domain_id: int) -> None:
    rtmw.Domain.unlink(domain_id)
    program = start("subscriber", "to/cpp", "1")
    assert program.communicate(timeout=20) == ("", "attach: there is no such domain\n")
    assert program.returncode == 1


def test_a_c_program_makes_the_domain_that_python_programs_come_to(start: Start, domain_id: int) -> None:
    rtmw.Domain.unlink(domain_id)
    program = start("publisher", "from/c", "3")
    assert program.communicate(timeout=20) == ("published 3\n", "")
    with rtmw.Domain(domain_id, create=False) as made:
        assert made.pool == 64 << 20


def test_the_library_and_what_describes_it_work_wherever_they_are_moved(built: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("rtmw.h", "rtmw.pc", "librtmw.so"):
        shutil.copy(CORE / name, moved)
    command = ["make", "-s", "-C", str(EXAMPLES), f"OUT={tmp_path}", f"RTMW={moved}", "CC=gcc", "CXX=g++"]
    subprocess.run(command, check=True, timeout=120)
    dependencies = subprocess.run(["ldd", tmp_path / "publisher"], capture_output=True, text=True, check=True).stdout
    assert str(moved / "librtmw.so") in dependencies


def test_the_library_shows_what_the_header_declares_and_needs_no_python(built: Path) -> None:
    symbols = subprocess.run(["nm", "-D", CORE / "librtmw.so"], capture_output=True, text=True, check=True).stdout
    defined = set(re.findall(r" [TDB] (\w+)$", symbols, re.MULTILINE))
    declared = set(re.findall(r"^RTMW_API .*?(rtmw_\w+)\(", (CORE / "rtmw.h").read_text(), re.MULTILINE))
    assert defined == declared
    assert "Py" not in symbols


def test_cpp_takes_reliability_and_exactness_as_one_value(tmp_path: Path) -> None:
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    source = tmp_path / "exact.cpp"
    source.write_text(EXACT)
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{CORE}", "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
