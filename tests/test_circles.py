"""Circles and folders: files that use each other, directly or by others, are one module that was cut for size. So there
are none. And no folder has more than 40 entries.

A file of Python uses what it imports; imports for types alone do not count. A file of C uses the headers that it
includes, and the files of its folder whose functions and tables it names, itself or by an inline function of a header.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.test_layers import imports, modules

ROOT = Path(__file__).parents[1]

Graph = Mapping[str, set[str]]

MODULES = {
    "rtmw/shm/_core.h": {"_core.c", "_publisher.c", "_region.c", "_subscriber.c"},
    "rtmw/log/_log.h": {"_log.c", "_reader.c", "_writer.c"},
    "rtmw/net/link/link.h": {"channel.c", "in.c", "line.c", "out.c", "pacing.c"},
    "rtmw/types/cdr.h": {"_cdr.c", "cdr.c"},
}
"""Modules of several files in a circle: the head of the header says that they are one, and why it is not one file."""


def circles(graph: Graph) -> list[set[str]]:
    """Sets of two or more that use each other, directly or by others."""
    reached = {name: _reached(graph, name) for name in graph}
    found = list[set[str]]()
    for name in sorted(graph):
        circle = {other for other in reached[name] if name in reached[other]}
        if len(circle) > 1 and circle not in found:
            found.append(circle)
    return found


def _reached(graph: Graph, start: str) -> set[str]:
    found, left = set[str](), [start]
    while left:
        more = graph.get(left.pop(), set()) - found
        found |= more
        left += more
    return found


class _WithoutTypes(ast.NodeTransformer):
    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)


def python_graph() -> dict[str, set[str]]:
    sources = {name: (source, package) for name, source, package in modules()}
    return {
        name: {used for _, used in imports(_WithoutTypes().visit(ast.parse(source)), package) if used in sources}
        - {name}
        for name, (source, package) in sources.items()
    }


COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
DEFINED = re.compile(r"^(?!static|typedef|#|extern)[A-Za-z_][^;{}()=]*?(\w+)\((?:[^;{}])*\)\s*\{", re.MULTILINE)
TABLE = re.compile(r"^(?!static|typedef|#|extern)[A-Za-z_][\w \*]*?\b(\w+)(?:\[\w*\])*(?: = |;)", re.MULTILINE)
INLINE = re.compile(
    r"^(?:__attribute__\(\(\w+\)\) )?static inline [^;{}()]*?(\w+)\([^;{}]*\)\s*(\{.*?^\}|\{.*?\}$)", re.M | re.S
)
CALL = re.compile(r"(?<![.\w])(?<!->)[A-Za-z_]\w*(?=\()")
WORD = re.compile(r"(?<![.\w])(?<!->)[A-Za-z_]\w*")


def c_graph(folder: Path) -> dict[str, set[str]]:
    """The graph of a folder. What a header's inline function uses is used by who names that function."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.[ch]"))}
    bare = {path: COMMENT.sub(" ", text) for path, text in texts.items()}
    sources = {path.name: text for path, text in bare.items() if path.suffix == ".c"}
    headers = [text for path, text in bare.items() if path.suffix == ".h"]
    calls = {name: file for file, text in sources.items() for name in DEFINED.findall(text)}
    tables = {name: file for file, text in sources.items() for name in TABLE.findall(text)}
    inline = {name: set(CALL.findall(body)) for text in headers for name, body in INLINE.findall(text)}
    graph = {path.name: {*INCLUDE.findall(text)} & {path.name for path in texts} for path, text in texts.items()}
    for file, text in sources.items():
        graph[file] |= {calls[name] for name in _called(text, inline) if name in calls}
        graph[file] |= {tables[name] for name in WORD.findall(text) if name in tables}
    return {file: used - {file} for file, used in graph.items()}


def _called(text: str, inline: Mapping[str, set[str]]) -> set[str]:
    found, left = set[str](), set(CALL.findall(text))
    while left:
        found |= left
        left = set[str]().union(*(inline[name] for name in left if name in inline)) - found
    return found


def c_folders() -> list[Path]:
    return sorted({path.parent for path in (ROOT / "rtmw").rglob("*.c")})


def c_circles() -> Iterator[set[str]]:
    for folder in c_folders():
        name = folder.relative_to(ROOT).as_posix()
        yield from ({f"{name}/{file}" for file in circle} for circle in circles(c_graph(folder)))


def explained() -> list[set[str]]:
    return [{f"{Path(header).parent}/{file}" for file in files} for header, files in MODULES.items()]


def test_no_files_use_each_other_in_a_circle_outside_a_module_that_its_head_explains() -> None:
    found = [*circles(python_graph()), *(circle for circle in c_circles() if circle not in explained())]
    assert [sorted(circle) for circle in found] == []


def test_a_module_of_several_files_in_a_circle_says_so_in_its_head() -> None:
    found = [*c_circles()]
    for header, module in zip(MODULES, explained(), strict=True):
        head = (ROOT / header).read_text(encoding="utf-8").partition("*/")[0]
        assert module in found, "this circle is open: its entry can go"
        assert "circle" in head
        assert all(Path(file).name in head for file in module)


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, [{"a", "b", "c"}]),
        ({"a": {"b"}, "b": {"a"}, "c": {"d", "a"}, "d": {"c"}}, [{"a", "b"}, {"c", "d"}]),
        ({"a": {"b", "c"}, "b": {"c"}, "c": set()}, []),
    ],
)
def test_a_circle_is_found(graph: Graph, found: list[set[str]]) -> None:
    assert circles(graph) == found


def test_a_file_of_c_uses_what_it_names_itself_or_by_an_inline_function(tmp_path: Path) -> None:
    files = {
        "a.h": "/* waits() */\nvoid sleeps(int);\nstatic inline void rests(void)\n{\n    sleeps(1);\n}\n",
        "a.c": '#include "a.h"\nint table[2] = {0};\nvoid sleeps(int ns)\n{\n    (void)ns;\n}\n',
        "b.c": '#include "a.h"\nvoid wakes(void)\n{\n    rests();\n}\n',
        "c.c": 'extern int table[2];\nvoid waits(void)\n{\n    wakes("sleeps");\n    x->sleeps = table[0];\n}\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert c_graph(tmp_path) == {"a.h": set(), "a.c": {"a.h"}, "b.c": {"a.h", "a.c"}, "c.c": {"a.c", "b.c"}}
    (tmp_path / "b.c").write_text("void wakes(void)\n{\n    rests();\n}\n")
    assert c_graph(tmp_path)["b.c"] == {"a.c"}


MOST_ENTRIES = 40
"""Files and folders in a folder. Those that come near it have their groups in a table (tests/test_docs.py)."""


def tracked() -> list[Path]:
    """The files of the package that git keeps, below the root of the tree."""
    listed = subprocess.run(["git", "ls-files", "rtmw"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(line) for line in listed.stdout.splitlines() if (ROOT / line).exists() or (ROOT / line).is_symlink()]


def entries(files: Iterable[Path]) -> dict[Path, set[str]]:
    """The files and folders that lie directly in each folder."""
    found = defaultdict[Path, set[str]](set)
    for file in files:
        for entry in (file, *file.parents[:-1]):
            found[entry.parent].add(entry.name)
    return found


def test_no_folder_has_more_entries_than_one_looks_through() -> None:
    found = entries(tracked())
    assert {str(folder): len(names) for folder, names in found.items() if len(names) > MOST_ENTRIES} == {}
    assert len(found[Path("rtmw/shm")]) > 30, "the listing is not that of the package"


def test_entries_of_a_folder_are_its_files_and_its_folders() -> None:
    assert entries([Path("a/b.py"), Path("a/c/d.py"), Path("a/c/e/f.py")]) == {
        Path(): {"a"},
        Path("a"): {"b.py", "c"},
        Path("a/c"): {"d.py", "e"},
        Path("a/c/e"): {"f.py"},
    }


SHORT = 100
"""Lines below which a module belongs to its importer, where it has one only."""
ALONE = re.compile(r"It stands alone, for [a-z`]")
"""The sentence in the head of a short module that says why it is one, all the same."""


def short_and_used_once() -> dict[str, str]:
    """The heads of modules of fewer than 100 lines that one other module imports. What a user starts or imports first
    (`__init__`, `__main__`), and modules that nobody imports but by name, such as commands, are no such modules."""
    graph = python_graph()
    importers = Counter(used for uses in graph.values() for used in uses)
    return {
        name: ast.get_docstring(ast.parse(source)) or ""
        for name, source, package in modules()
        if importers[name] == 1
        and len(source.splitlines()) < SHORT
        and name != package
        and not name.endswith("__main__")
    }


def test_a_short_module_with_one_importer_says_why_it_is_a_module() -> None:
    found = [name for name, head in short_and_used_once().items() if not ALONE.search(" ".join(head.split()))]
    assert found == [], "these belong to their importers, unless their heads say: It stands alone, for …"
