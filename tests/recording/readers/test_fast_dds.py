"""The IDL of our recordings, as the compiler of Fast DDS reads it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rtmw.recording.schemas import schema_of
from rtmw.types import resolve
from tests.recording.readers import made
from tests.types import messages


def test_fast_dds_compiles_our_idl(tmp_path: Path) -> None:
    if shutil.which("fastddsgen") is None:
        pytest.skip("Fast DDS is not installed: apt-get install fastddsgen")
    kinds = [*(type(value) for _, value in made.VALUES), messages.Various, messages.Tree]
    for number, kind in enumerate(kinds):
        (tmp_path / f"kind{number}.idl").write_bytes(schema_of(resolve(kind)).data)
    files = sorted(path.name for path in tmp_path.glob("*.idl"))
    done = subprocess.run(
        ["fastddsgen", "-cs", "-replace", *files], cwd=tmp_path, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for number, kind in enumerate(kinds):
        assert f"class {kind.__name__}" in (tmp_path / f"kind{number}.h").read_text()
