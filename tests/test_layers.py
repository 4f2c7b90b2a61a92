"""Layers: a module imports downwards only, and what stands outside the package uses only what `rtmw` exports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw

ROOT = Path(__file__).parents[1]

LAYERS = (
    (
        "rtmw.errors",
        "rtmw.qos",
        "rtmw.profiles",
        "rtmw.closing",
        "rtmw.clock",
        "rtmw.disk",
        "rtmw.latency",
        "rtmw.notebook",
        "rtmw.realtime",
        "rtmw.text",
        "rtmw.locks",
        "rtmw.settings",
    ),
    ("rtmw.shm", "rtmw.types", "rtmw.log", "rtmw.checksum"),
    ("rtmw.columns", "rtmw.recording"),
    (
        "rtmw.domain",
        "rtmw.publisher",
        "rtmw.subscriber",
        "rtmw.many",
        "rtmw.waiting",
        "rtmw.observe",
        "rtmw.matching",
        "rtmw.requests",
        "rtmw.durable_log",
    ),
    ("rtmw",),  # rtmw/__init__.py: what users import, and services too
    ("rtmw.net.security", "rtmw.net.session", "rtmw.net.service", "rtmw.replica.control"),
    ("rtmw.net", "rtmw.recorder", "rtmw.player", "rtmw.transfer", "rtmw.relay", "rtmw.replica"),
    ("rtmw.spark",),
    ("rtmw.cli", "rtmw.demo", "rtmw.pytest_plugin", "rtmw.__main__"),
)
LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}

SIBLINGS = {"rtmw.shm", "rtmw.types", "rtmw.log"}
"""Of one layer, and yet they do not know each other: memory and files know nothing of values, nor these of them."""

LATE = {"rtmw.recorder", "rtmw.player", "rtmw.spark", "rtmw.transfer", "rtmw.relay"}
"""Services that `rtmw` names for type checkers, and imports when it is asked for them (tests/test_exports.py)."""

DDS = "cyclonedds"
WITH_DDS = {"rtmw.net.dds.library"}
"""The module that needs cyclonedds to be imported at all. All others import it when a class of its is met."""
NEED_DDS = {"rtmw.net", "rtmw.demo"}
"""Parts with modules that import it, or topics: the rest of the package works where cyclonedds is missing."""

OUTSIDE = ("topics", "examples", "bench")

MEASURED = {
    "rtmw.types",
    "rtmw.recording",
    "rtmw.relay",
    "rtmw.relay.policy",
    "rtmw.relay.settings",
    "rtmw.net.session",
}
"""What benches measure or make their data with by itself, although users meet it through Publisher or Recorder, or
only where they speak to a relay without an Agent."""


def part(module: str) -> str:
    """The longest entry of the table that a module belongs to: `rtmw.shm.region` is of `rtmw.shm`."""
    words = module.split(".")
    above = [".".join(words[:length]) for length in range(len(words), 1, -1)]
    return next((name for name in above if name in LEVELS), ".".join(words[:2]))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists() or path.with_suffix(".pyi").exists()


def imports(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Line and module of every import, at the top or inside a function; names that are no module are left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package.split(".")[: len(package.split(".")) - node.level + 1], base]).rstrip(".")
            full = [f"{base}.{alias.name}" for alias in node.names]
            yield from ((node.lineno, name if is_module(name) else base) for name in full)


class AtOnce(ast.NodeTransformer):
    """Leaves of a module what runs when it is imported."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        del node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        del node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)


def imports_at_once(source: str, package: str) -> set[str]:
    """What is imported together with the module, also by `import_module`, and the packages above."""
    tree: ast.AST = AtOnce().visit(ast.parse(source))
    calls = (
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module"
    )
    names = [name for _, name in imports(tree, package)]
    names += [call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)]
    return {".".join(name.split(".")[: length + 1]) for name in names for length in range(name.count(".") + 1)}


def importing(wanted: set[str], graph: dict[str, set[str]]) -> set[str]:
    """The modules that import one of these at once, directly or by others."""
    found = set[str]()
    while more := {name for name, names in graph.items() if names & (wanted | found)} - found:
        found |= more
    return found


def allowed(importer: str, imported: str) -> bool:
    if imported.startswith("rtmw.demo.topics"):
        return part(importer) == "rtmw.demo"
    if imported.split(".")[0] != "rtmw":
        return imported.split(".")[0] not in OUTSIDE
    mine, other = part(importer), part(imported)
    if mine != other and {mine, other} <= SIBLINGS:
        return False
    if mine == "rtmw" and other in LATE:
        return True
    return LEVELS.get(other, len(LAYERS)) <= LEVELS[mine]


def documented() -> Iterator[tuple[str, ...]]:
    """The table of layers in ARCHITECTURE.md, row by row, with full names."""
    rows = re.findall(r"^\| (\d) \| (`[^|]+) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    for number, (row, names) in enumerate(rows):
        assert int(row) == number
        yield tuple(name if name == "rtmw" else f"rtmw.{name}" for name in re.findall(r"`([\w.]+)`", names))


def upward_imports(module: str, source: str, package: str) -> list[str]:
    found = imports(ast.parse(source), package)
    return [f"line {line}: {module} imports {name}" for line, name in found if not allowed(module, name)]


def private_uses(source: str) -> list[str]:
    """What a program outside the package takes from rtmw that `rtmw` does not export."""
    public = set(rtmw.__all__)
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [f"line {node.lineno}: import {a.name}" for a in node.names if a.name.startswith("rtmw.")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rtmw."):
            if node.module in MEASURED:
                continue
            found.append(f"line {node.lineno}: from {node.module} import ...")
        elif isinstance(node, ast.ImportFrom) and node.module == "rtmw":
            found += [f"line {node.lineno}: rtmw.{a.name}" for a in node.names if a.name not in public]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "rtmw":
            found += [f"line {node.lineno}: rtmw.{node.attr}"] if node.attr not in public else []
    return found


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def modules() -> Iterator[tuple[str, str, str]]:
    """Name, source and package of each module of rtmw."""
    for path in python_files("rtmw"):
        module = module_name(path)
        yield module, path.read_text(), module if path.name == "__init__.py" else module.rpartition(".")[0]


# Proves C5.
def test_each_module_has_a_layer() -> None:
    assert [module for module, *_ in modules() if part(module) not in LEVELS] == [], "enter these in LAYERS"


def test_a_module_imports_only_from_its_layer_and_below() -> None:
    assert [found for module, source, package in modules() for found in upward_imports(module, source, package)] == []


def test_only_the_node_and_the_demonstration_need_cyclonedds_to_be_imported() -> None:
    graph = {module: imports_at_once(source, package) for module, source, package in modules()}
    assert {name for name, names in graph.items() if DDS in names} == WITH_DDS
    assert {part(name) for name in importing({DDS, "rtmw.demo.topics"}, graph)} == NEED_DDS


@pytest.mark.parametrize(
    "source",
    [
        "import cyclonedds.idl",
        "with needing_dds('a node'):\n    from cyclonedds.core import Qos",
        "idl = import_module('cyclonedds.idl')",
        "class A:\n    from cyclonedds.idl import IdlStruct",
        "from a import b",
    ],
)
def test_the_rule_sees_what_is_imported_at_once(source: str) -> None:
    graph = {"a": {DDS}, "module": imports_at_once(source, "")}
    assert importing({DDS}, graph) == {"a", "module"}


@pytest.mark.parametrize(
    "source",
    [
        "def late():\n    import cyclonedds.idl",
        "class A:\n    def late(self):\n        return import_module('cyclonedds.idl')",
        "if TYPE_CHECKING:\n    from cyclonedds.idl import IdlStruct",
        "import cyclone",
    ],
)
def test_the_rule_lets_pass_what_is_imported_late(source: str) -> None:
    assert imports_at_once(source, "").isdisjoint({DDS})


def test_the_architecture_has_the_same_table_of_layers() -> None:
    assert [set(row) for row in documented()] == [set(row) for row in LAYERS]


def test_a_program_outside_the_package_uses_only_what_rtmw_exports() -> None:
    used = {path: private_uses(path.read_text()) for folder in OUTSIDE for path in python_files(folder)}
    assert {module_name(path): found for path, found in used.items() if found} == {}


def test_topics_know_nothing_of_the_programs_that_use_them() -> None:
    for path in python_files("topics"):
        used = {name.split(".")[0] for _, name in imports(ast.parse(path.read_text()), "topics")}
        assert used.isdisjoint({"examples", "bench", "tests"}), module_name(path)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("rtmw.qos", "from rtmw.shm import _core"),
        ("rtmw.errors", "from rtmw import qos, domain"),
        ("rtmw.shm.region", "from ..domain import Domain"),
        ("rtmw.shm.region", "def late():\n    import rtmw.types"),
        ("rtmw.publisher", "import rtmw"),
        ("rtmw.observe", "from rtmw.cli import main"),
        ("rtmw.cli.topic", "import rtmw.demo.topics.river"),
        ("rtmw.demo", "from topics import telemetry"),
        ("rtmw.domain", "import bench"),
        ("rtmw.net.security.rules", "from rtmw.net import settings"),
    ],
)
def test_the_rule_sees_an_upward_import(module: str, source: str) -> None:
    assert len(upward_imports(module, source, module.rpartition(".")[0])) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("rtmw.profiles", "from rtmw.qos import Reliability"),
        ("rtmw.shm.region", "from . import _core"),
        ("rtmw.subscriber", "from rtmw.errors import ClosedError\nimport os"),
        ("rtmw.demo", "import rtmw\nfrom rtmw.demo.topics import telemetry"),
        ("rtmw.net.settings", "from rtmw.net.security import rules"),
    ],
)
def test_the_rule_lets_a_downward_import_pass(module: str, source: str) -> None:
    assert upward_imports(module, source, module.rpartition(".")[0]) == []


@pytest.mark.parametrize(
    "source", ["import rtmw.domain", "from rtmw.shm import region", "from rtmw import matching", "rtmw.shm._core"]
)
def test_the_rule_sees_the_use_of_something_private(source: str) -> None:
    assert len(private_uses(source)) == 1
