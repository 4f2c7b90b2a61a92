"""`rtmw.cli.show`: how tables and sizes look."""

from __future__ import annotations

import io

from rich.console import Console

from rtmw.cli.show import Table, as_rich, as_text, size, text

TABLE = Table("Topics", ("topic", "published"), [("cpu", 5), ("memory", 1200)])


def test_plain_tables_align_text_to_the_left_and_numbers_to_the_right() -> None:
    assert as_text(TABLE).splitlines() == [
        "Topics",
        "topic   published",
        "cpu             5",
        "memory       1200",
    ]


def test_a_table_without_rows_still_shows_its_headings() -> None:
    assert as_text(Table("", ("topic", "published"), [])) == "topic  published"


def test_a_rich_table_shows_square_brackets_of_the_data_as_they_are() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(as_rich(Table("t", ("process",), [("[bold]python",)])))
    assert isinstance(console.file, io.StringIO)
    assert "[bold]python" in console.file.getvalue()


def test_a_missing_cell_is_a_dash_and_floats_have_three_figures() -> None:
    assert [text(cell) for cell in (None, 1.23456, 12345.6, 7, "x")] == ["-", "1.23", "12346", "7", "x"]


def test_sizes_have_the_unit_that_fits() -> None:
    assert [size(n) for n in (0, 1023, 1536, 5 << 20, 24 << 30)] == ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "24.0 GiB"]
