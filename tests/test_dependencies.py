"""What the package imports, its pyproject.toml declares: a program that installs rtmw alone has nothing else."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("arrow", "pandas", "polars", "sql", "catalog", "json", "protobuf", "plot", "link", "completion", "spark")
"""What users may add; `dev` is not theirs."""

OURS = {"rtmw", "topics"}
BROUGHT = {"py4j"}
"""PySpark brings it, at the one version that fits."""


LOADED_BY = {"rtmw/pytest_plugin.py": "pytest"}
"""What a module imports that nobody else than this program loads."""


def distribution(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_page_of_limits_names_each_extra_and_no_other() -> None:
    part = (ROOT / "docs" / "limits.md").read_text().partition("## Extras\n")[2].partition("\n## ")[0]
    first = [row.split("|")[1] for row in part.splitlines() if row.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", "".join(first))) == sorted(PROJECT["optional-dependencies"])


def declared(requirements: list[str]) -> set[str]:
    return {distribution(found.group()) for line in requirements if (found := re.match(r"[\w.-]+", line))}


DECLARED = declared(
    PROJECT["dependencies"] + [line for name in EXTRAS for line in PROJECT["optional-dependencies"][name]]
)
OWNERS = packages_distributions()
"""Distributions that hold a package: `yaml` is of PyYAML."""


def run_time_imports(node: ast.AST) -> Iterator[str]:
    """Package of every import that runs; those for type checkers do not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name.split(".")[0] for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and not child.level and child.module:
            yield child.module.split(".")[0]
        else:
            yield from run_time_imports(child)


def undeclared(source: str) -> list[str]:
    found = set(run_time_imports(ast.parse(source))) - OURS - BROUGHT - sys.stdlib_module_names
    return sorted(p for p in found if DECLARED.isdisjoint(distribution(name) for name in OWNERS.get(p, [p])))


def test_a_module_imports_only_what_the_package_declares() -> None:
    found = {path.relative_to(ROOT).as_posix(): undeclared(path.read_text()) for path in (ROOT / "rtmw").rglob("*.py")}
    assert found
    assert {path: names for path, names in found.items() if names not in ([], [LOADED_BY.get(path)])} == {}


@pytest.mark.parametrize(
    "source", ["import typing_extensions", "import pytest", "def f():\n    import pytest", "import nowhere.at_all"]
)
def test_the_rule_sees_what_is_not_declared(source: str) -> None:
    assert len(undeclared(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import numpy.typing, os",
        "def f():\n    import pyarrow",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from typing_extensions import Buffer",
    ],
)
def test_the_rule_lets_what_is_declared_pass(source: str) -> None:
    assert undeclared(source) == []
