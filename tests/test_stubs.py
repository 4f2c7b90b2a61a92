"""The stubs of the compiled modules say what these have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


WITH_LIBRARIES = """
import sys
import rtmw.net.dds.library, rtmw.net.link.library  # the modules beside these find what they are linked with then
from mypy.stubtest import main
sys.exit(main())
"""


@pytest.mark.timeout(320)
def test_the_stubs_agree_with_the_compiled_modules() -> None:
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in ROOT.glob("rtmw/**/_*.pyi")]
    assert len(modules) >= 9
    command = [sys.executable, "-c", WITH_LIBRARIES, *modules]
    command += ["--mypy-config-file", str(ROOT / "pyproject.toml"), "--concise"]
    command += ["--allowlist", str(ROOT / "tests" / "stubtest_allowlist.txt")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
