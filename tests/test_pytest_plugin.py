"""The plugin that users' tests have: each test with `rtmw_domain` is alone in its domain."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

USERS = """
import subprocess, sys
from pathlib import Path
import pytest, rtmw

ANSWER = "import rtmw; print(rtmw.Subscriber('t', history=9).receive(timeout=10).value.decode())"

@pytest.mark.parametrize("number", range(8))
def test_it_meets_its_own_programs_only(rtmw_domain, number):
    me = b"{file}: %d" % number
    with open({told!r}, "a") as told:
        print(*Path("/dev/shm").glob(f"rtmw.{{rtmw_domain.id}}.blocks.*"), file=told)
    with rtmw.Publisher("t", history=9) as publisher, rtmw.Subscriber("t", history=9) as subscriber:
        assert publisher.publish(me)
        said = subprocess.run([sys.executable, "-c", ANSWER], capture_output=True, text=True, check=True).stdout
        assert said.strip() == me.decode()
        assert [sample.value for sample in subscriber.take_many(9)] == [me]
    assert rtmw_domain.pool <= 16 << 20
    rtmw.Publisher("left open").publish(b"by a test that does not close it")
"""


def test_tests_of_users_at_the_same_time_do_not_meet_and_leave_nothing(tmp_path: Path) -> None:
    told = tmp_path / "told"
    for name in ("one", "other"):
        program = textwrap.dedent(USERS).format(file=name, told=str(told))
        (tmp_path / f"test_{name}.py").write_text(program)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "RTMW_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "3", "-p", "no:cacheprovider", "-W", "error", str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "16 passed" in ran.stdout
    memory = told.read_text().split()
    assert len(set(memory)) == 16  # one of each test: their names tell apart two domains of one number
    assert [path for path in memory if Path(path).exists()] == []
