"""Names and stubs are typed: what mypy --strict and pyright infer for users of rtmw, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import rtmw

HERE = Path(__file__).parent
SOURCE = Path(rtmw.__file__).parents[1]
FOLLOWS = ("reportUnknownMemberType", "reportUnknownLambdaType", "reportUnknownArgumentType")
"""What pyright adds on the line of another error."""

Errors = dict[str, set[int]]
"""Lines with errors, by file."""


def output_of(command: list[str], **environment: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def by_mypy(files: list[str], folder: Path) -> Errors:
    options = ["--strict", "--config-file=", f"--cache-dir={folder / 'mypy'}", "--output=json"]
    output = output_of([sys.executable, "-m", "mypy", *options, *files], MYPYPATH=str(SOURCE))
    errors: Errors = defaultdict(set)
    for line in output.splitlines():
        if line.startswith("{") and (found := json.loads(line))["severity"] == "error":
            errors[Path(found["file"]).name].add(found["line"])
    return errors


def by_pyright(files: list[str], folder: Path) -> Errors:
    settings = {"extraPaths": [str(SOURCE)], "typeCheckingMode": "strict", "reportUnusedExpression": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    options = ["--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    answer = json.loads(output_of([sys.executable, "-m", "pyright", *options]))
    assert answer["summary"]["filesAnalyzed"] == len(files)
    errors: Errors = defaultdict(set)
    for found in answer["generalDiagnostics"]:
        if found["severity"] == "error" and found.get("rule") not in FOLLOWS:
            errors[Path(found["file"]).name].add(found["range"]["start"]["line"] + 1)
    return errors


@pytest.fixture(scope="module", params=[by_mypy, by_pyright], ids=["mypy", "pyright"])
def errors(request: pytest.FixtureRequest) -> Errors:
    """What a checker has against our two programs; each checker runs once."""
    folder = Path(request.config.cache.mkdir("rtmw-typing"))
    files = []
    for name in ("inferred.py", "refused.py"):
        (folder / name).write_text((HERE / name).read_text())
        files.append(str(folder / name))
    return request.param(files, folder)


def test_types_of_messages_are_inferred(errors: Errors) -> None:
    assert errors["inferred.py"] == set()


def test_misuse_is_refused(errors: Errors) -> None:
    lines = (HERE / "refused.py").read_text().splitlines()
    assert errors["refused.py"] == {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(rtmw.__file__).parent / "py.typed").is_file()
