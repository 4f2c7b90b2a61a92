"""`rtmw.cli.terminal`: how tables and sizes look."""

from __future__ import annotations

import io

from rich.console import Console
from rich.live import Live

from rtmw.cli.terminal import Screen, Table, as_records, as_rich, as_text, column_widths, counted, duration, size, text

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


def test_on_a_narrow_terminal_long_texts_are_folded_and_numbers_are_never_cut() -> None:
    table = Table("", ("topic", "messages a second"), [("a/very/long/topic/name/indeed", 123456789)])
    widths = column_widths(table, 32)
    assert widths == [20, 9]
    console = Console(file=io.StringIO(), width=32)
    console.print(as_rich(table, widths))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "123456789" in shown
    assert "name/indeed"[-9:] in shown
    assert max(len(line) for line in shown.splitlines()) <= 32


def test_a_table_of_too_many_columns_for_the_terminal_becomes_a_paragraph_a_row() -> None:
    table = Table("2 rows", ("pid", "process", "received"), [(12345, "python", 1000000), (7, "x", 0)])
    assert column_widths(table, 16) is None
    assert as_records(table, 31).splitlines() == [
        "2 rows",
        "  pid 12345, process python,",
        "    received 1000000",
        "  pid 7, process x, received 0",
    ]


def test_a_paragraph_on_a_screen_has_the_brackets_of_the_data_and_no_colours_by_guess() -> None:
    console = Console(file=io.StringIO(), width=40, force_terminal=True)
    table = Table("", ("id", *"bcdefghijklm", "why"), [("vm:22d9:1", *([1234567] * 12), "needs [transfer] listen")])
    with Live(console=console, auto_refresh=False) as live:
        Screen(live).update(table)
    assert isinstance(console.file, io.StringIO)
    told = console.file.getvalue()
    assert "id vm:22d9:1, b 1234567, c 1234567," in told
    assert "why needs [transfer] listen" in told


def test_a_missing_cell_is_a_dash_and_floats_have_three_figures() -> None:
    assert [text(cell) for cell in (None, 1.23456, 12345.6, 7, "x")] == ["-", "1.23", "12346", "7", "x"]


def test_sizes_have_the_unit_that_fits() -> None:
    assert [size(n) for n in (0, 1023, 1536, 5 << 20, 24 << 30)] == ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "24.0 GiB"]


def test_quantities_with_units_are_numbers_and_gaps_in_a_column_do_not_matter() -> None:
    table = Table("", ("a", "b", "c"), [("1.5 MiB", "x", None), (None, "1 s", None)])
    assert [table.numeric(column) for column in range(3)] == [True, False, False]
    assert table.without("b").rows == [["1.5 MiB", None], [None, None]]


def test_times_have_three_figures_and_a_unit() -> None:
    assert [duration(seconds) for seconds in (None, 0.0, 5e-9, 1.25e-6, 999e-9, 0.0123, 71.0)] == [
        None, "0 ns", "5 ns", "1.25 µs", "999 ns", "12.3 ms", "71 s",
    ]  # fmt: skip


def test_long_times_have_two_units() -> None:
    assert [duration(seconds) for seconds in (999.0, 1000.0, 1200.0, 3599.6, 10_000.0, 86_400.0, 300_000.0)] == [
        "999 s", "16 min 40 s", "20 min", "60 min", "2 h 47 min", "24 h", "3 d 11 h",
    ]  # fmt: skip


def test_one_of_a_thing_is_no_plural() -> None:
    assert [counted(number, "topic") for number in (0, 1, 2)] == ["0 topics", "1 topic", "2 topics"]
