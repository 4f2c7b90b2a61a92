"""The documents keep their word: what they name exists, and people can read them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.marks import MADE as WRITTEN
from tests.marks import PAGES, PROVING, ROW, citing, proving, written
from tests.page import programs

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(p for d in ("docs", "bench/results", "tests") for p in ROOT.glob(f"{d}/**/*.md"))]
)
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
TABLE = re.compile(r"^\| id \|.*\n\|[-|]+\n((?:\|.*\n)+)", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def named_tests() -> list[tuple[str, str]]:
    return sorted({named for path in DOCUMENTS for named in NAMED.findall(path.read_text())})


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_a_page_of_tests_is_as_the_marks_of_tests_make_it(page: Path) -> None:
    assert page.read_text() == written(page), "`python -m tests.marks` writes them; see that no row loses a test"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_row_of_guarantees_and_requirements_has_an_id_of_its_own_and_a_test(page: Path) -> None:
    lines = [line for table in TABLE.findall(page.read_text()) for line in table.splitlines()]
    assert [line for line in lines if not ROW.match(line)] == []
    keys = [line.strip("|").split("|")[0].strip() for line in lines]
    assert len(keys) == len(set(keys)) > 40
    assert [key for key in keys if not proving()[key] and key not in citing()] == []


def test_each_mark_is_above_a_test_and_has_its_row() -> None:
    rows = {key for page in PAGES for key in ROW.findall(page.read_text())}
    assert set(proving()) - rows == set()
    texts = {name(path): path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    astray = [path for path, text in texts.items() if text.count("\n# Proves ") != len(PROVING.findall(text))]
    assert astray == []


def test_each_sentence_of_the_paper_of_the_relay_has_its_test() -> None:
    part = (ROOT / "tests" / "relay" / "paper.md").read_text()
    rows = [line for line in part.splitlines() if line.startswith("| R")]
    assert {row.split()[1] for row in rows} == {f"R{number}" for number in range(1, 13)}
    assert [row for row in rows if not NAMED.search(row)] == []


def test_each_promise_of_the_replicated_log_has_a_test_under_each_fault() -> None:
    part = (ROOT / "tests" / "replica" / "proofs.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:2] == "| "]
    tests = {key for key, test, _ in (row for row in rows if len(row) == 3) if NAMED.search(test)}
    table = [row[1:] for row in rows[1:] if len(row) == 6]
    assert len(table) > 15
    cells = [re.findall(r"\b[A-Z]\b", cell) for row in table for cell in row if cell != "**not covered**"]
    assert all(cells)
    assert {key for cell in cells for key in cell} == tests


def defined_in(file: str) -> set[str]:
    return set(re.findall(r"^(?:async )?def (test_\w+)\(", (ROOT / file).read_text(), re.MULTILINE))


def test_a_test_that_a_document_names_exists() -> None:
    present = {file: defined_in(file) for file, _ in named_tests() if (ROOT / file).exists()}
    assert [f"{file}::{test}" for file, test in named_tests() if test not in present.get(file, set())] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_a_document_links_only_to_files_that_exist(path: Path) -> None:
    assert [link for link in LINK.findall(path.read_text()) if not (path.parent / link).exists()] == []


DESIGN = [ROOT / "ARCHITECTURE.md", *sorted(ROOT.glob("docs/design/*.md"))]
SOURCE = re.compile(r"`([\w/]+\.(?:py|[ch]))`")


@pytest.mark.parametrize("path", DESIGN, ids=name)
def test_a_source_file_that_the_architecture_names_exists(path: Path) -> None:
    present = [f"/{name(file)}" for folder in ("rtmw", "tests", "bench") for file in (ROOT / folder).rglob("*.*")]
    named = SOURCE.findall(path.read_text())
    assert [n for n in named if not any(file.endswith(f"/{n}") for file in present)] == []


FLAT = {"docs/design/core.md": "rtmw/shm", "docs/design/log.md": "rtmw/log"}
"""Pages whose first table says which part of a flat folder each of its files is of."""


@pytest.mark.parametrize("page", FLAT)
def test_the_table_of_a_flat_folder_names_each_of_its_files_once(page: str) -> None:
    _, _, part = (ROOT / page).read_text().partition("## Files\n")
    rows = [line for line in part.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    named = [file for row in rows for file in re.findall(r"`(\w+\.\w+)`", row)]
    files = [path.name for path in (ROOT / FLAT[page]).iterdir() if path.suffix in {".c", ".h", ".py", ".pyi"}]
    assert sorted(named) == sorted(files)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_a_heading_that_a_document_links_to_exists(path: Path) -> None:
    for target, anchor in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", path.read_text()):
        headings = re.findall(r"^#+ (.*)$", (path.parent / target if target else path).read_text(), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


WIDTH = 120
WRITTEN_WHOLE = ("docs/api.md", "docs/proofs.md", "docs/node-metrics.md")
MADE = {*WRITTEN_WHOLE, *(name(path) for path in ROOT.glob("bench/results/[!R]*.md"))}
"""Commands write these, or parts of them."""
WHOLE = re.compile(r"\s*(?:\||\S+$|[-*] \S+$)")
"""Rows of tables, and what has no place to break."""


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if name(path) not in MADE], ids=name)
def test_lines_of_a_document_can_be_read_side_by_side(path: Path) -> None:
    parts = re.split(r"^ *```.*$", path.read_text(), flags=re.MULTILINE)
    prose = [line for part in parts[::2] for line in part.splitlines()]
    assert [line for line in prose if len(line) > WIDTH and not WHOLE.match(line)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_no_table_of_a_document_is_torn(path: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    tables = re.findall(r"^(?:\|.*\n?)+", text, re.MULTILINE)
    assert [table for table in tables if not re.match(r".*\n\|[-:| ]+\|\n\|", table)] == []


SIGNATURES = "docs/api.md"
"""Its blocks are signatures, and no programs."""


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if name(path) != SIGNATURES], ids=name)
def test_each_program_of_a_document_is_python(path: Path) -> None:
    for program in programs(path):
        compile(program, path, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
