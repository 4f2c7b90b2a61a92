"""Names and stubs are typed: what mypy --strict and pyright infer for users of rtmw, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rtmw

HERE = Path(__file__).parent
SOURCE = Path(rtmw.__file__).parents[1]


def mypy(file: Path, cache: Path) -> list[int]:
    """Lines with errors."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", "--output=json"]
    environment = {**os.environ, "MYPYPATH": str(SOURCE)}
    done = subprocess.run([*command, str(file)], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return sorted({error["line"] for error in found if error["severity"] == "error" and Path(error["file"]).name == file.name})


def pyright(file: Path, folder: Path) -> list[int]:
    """Lines with errors."""
    settings = {"extraPaths": [str(SOURCE)], "typeCheckingMode": "strict", "reportUnusedExpression": False}
    (folder / file.name).write_text(file.read_text())
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "-p", str(folder), "--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["summary"]["filesAnalyzed"] == 1
    found = answer["generalDiagnostics"]
    unknown = ("reportUnknownMemberType", "reportUnknownLambdaType", "reportUnknownArgumentType")  # follow from an error
    return sorted({e["range"]["start"]["line"] + 1 for e in found if e["severity"] == "error" and e.get("rule") not in unknown})


def refused_lines(file: Path) -> list[int]:
    return [number for number, line in enumerate(file.read_text().splitlines(), 1) if line.endswith("# refused")]


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_types_of_messages_are_inferred(checker: object, tmp_path: Path) -> None:
    assert callable(checker)
    assert checker(HERE / "inferred.py", tmp_path) == []


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_misuse_is_refused(checker: object, tmp_path: Path) -> None:
    assert callable(checker)
    assert checker(HERE / "refused.py", tmp_path) == refused_lines(HERE / "refused.py")


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(rtmw.__file__).parent / "py.typed").is_file()
