"""What commands print, and the keys they hear: lines and tables, as text for people or as JSON for programs; one line
in place on standard error; windows of time until the last one, `q` or Ctrl-C.

What others named is shown as visible text: nothing of it steers a terminal.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from rtmw.cli.values import to_plain
from rtmw.clock import CLOCK
from rtmw.errors import RtmwError
from rtmw.text.strict_json import as_json
from rtmw.text.units import counted as counted
from rtmw.text.units import duration as duration
from rtmw.text.units import size as size
from rtmw.text.visible import visible

if TYPE_CHECKING:
    from rich.table import Table as RichTable


Cell = str | int | float | None

QUANTITY = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)? \S+")
"""A number with its unit: 1.5 MiB."""
FOLDED = 10
"""Characters to which a column of text may shrink."""


@dataclass(frozen=True)
class Table:
    """Rows under headings. Columns that hold only numbers, with a unit or without, are aligned to the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    """Lines below the title."""

    def numeric(self, column: int) -> bool:
        """Whether the column holds nothing but numbers, and gaps."""
        cells = [cell for row in self.rows if (cell := row[column]) is not None]
        return bool(cells) and all(isinstance(cell, (int, float)) or bool(QUANTITY.fullmatch(cell)) for cell in cells)

    def without(self, column: str) -> Table:
        """Returns the table without one of its columns."""
        at = list(self.columns).index(column)
        rows = [[*row[:at], *row[at + 1 :]] for row in self.rows]
        return Table(self.title, [*self.columns[:at], *self.columns[at + 1 :]], rows, self.notes)

    def named(self) -> list[dict[str, Cell]]:
        """The rows, each cell by the name of its column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def head(self) -> list[str]:
        """The title and the notes as they are shown: a line each."""
        return [visible(line) for line in (self.title, *self.notes) if line]

    def cells(self) -> list[list[str]]:
        """The headings and the rows as they are shown."""
        return [[text(cell) for cell in row] for row in (self.columns, *self.rows)]


class OutputFailed(RtmwError):
    """Standard output takes no more; the message says why."""


class Display(Protocol):
    """Where a command that goes on shows its newest table."""

    def update(self, table: Table) -> None:
        """Show this table instead of, or after, the last one."""
        ...


def on_terminal() -> bool:
    """Whether a person is looking."""
    return sys.stdout.isatty()


def reencode(**options: str) -> None:
    """Changes encoding or errors of standard output; what a test put in its place may have neither."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(**options)


@contextmanager
def writing() -> Generator[None]:
    """What is written on standard output meanwhile. Raises OutputFailed; BrokenPipeError: the reader went away."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(f"standard output cannot be written: {error.strerror}") from error


def say(*lines: object, flush: bool = False) -> None:
    """Print lines on standard output. A line break within one of them is shown as an escape."""
    shown = [visible(str(line)) for line in lines]
    with writing():
        print(*shown, sep="\n", flush=flush)


RED: Final = "31"
YELLOW: Final = "33"
DIM: Final = "2"


def say_coloured(colour: str, *lines: str) -> None:
    """`say` at once, on a terminal in a colour; empty: without. The variable NO_COLOR leaves it out."""
    if not colour or not on_terminal() or os.environ.get("NO_COLOR"):
        return say(*lines, flush=True)
    print(*(f"\x1b[{colour}m{visible(line)}\x1b[0m" for line in lines), sep="\n", flush=True)


def warn(*lines: object) -> None:
    """Print lines on standard error, as `say` does."""
    print(*(visible(str(line)) for line in lines), sep="\n", file=sys.stderr, flush=True)


def show(table: Table) -> None:
    """Print a table; on a terminal that is too narrow for its columns, a paragraph a row."""
    if not on_terminal():
        with writing():
            print(as_text(table))
        return
    from rich.console import Console

    console = Console()
    widths = column_widths(table, console.width)
    if widths is None:
        print(as_records(table, console.width))
    else:
        console.print(as_rich(table, widths))


def show_json(data: Any) -> None:
    """Print one JSON document on a line of its own."""
    say(as_json(to_plain(data)), flush=True)


@contextmanager
def live() -> Generator[Display]:
    """Tables that replace each other on a terminal, and follow each other elsewhere."""
    if not on_terminal():
        yield _Lines()
        return
    from rich.live import Live

    with Live(auto_refresh=False) as screen:
        yield Screen(screen)


class _Lines:
    def update(self, table: Table) -> None:
        with writing():
            print(as_text(table), flush=True)


class Screen:
    """A table in place of the one before, on what rich calls a live display."""

    def __init__(self, screen: Any) -> None:
        self._screen = screen

    def update(self, table: Table) -> None:
        from rich.text import Text  # a plain str would be read as markup, and coloured by guess

        width = self._screen.console.width
        widths = column_widths(table, width)
        shown = Text(as_records(table, width)) if widths is None else as_rich(table, widths)
        self._screen.update(shown, refresh=True)


def as_text(table: Table) -> str:
    """Aligned text, the title first."""
    cells = table.cells()
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    right = [table.numeric(i) for i in range(len(table.columns))]
    lines = [
        "  ".join(
            cell.rjust(width) if r else cell.ljust(width) for cell, width, r in zip(row, widths, right, strict=True)
        )
        for row in cells
    ]
    return "\n".join(line.rstrip() for line in table.head() + lines)


def as_rich(table: Table, widths: Sequence[int] | None = None) -> RichTable:
    """Returns the table for a terminal. `widths`: those of its columns, from `column_widths`."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table as RichTable

    columns, *rows = table.cells()
    title = escape("\n".join(table.head()))
    rich = RichTable(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for index, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if table.numeric(index) else "left"
        rich.add_column(escape(column), justify=justify, overflow="fold", width=widths[index] if widths else None)
    for row in rows:
        rich.add_row(*map(escape, row))
    return rich


def column_widths(table: Table, width: int) -> list[int] | None:
    """Characters for each column on a terminal of this width; None if it is too narrow for the table.

    Only long texts give way, the longest first, and go on in the next line; a number is never cut.
    """
    from rich.cells import cell_len

    columns, *rows = table.cells()
    widths = [
        max(cell_len(word) for word in [*column.split(), *(row[index] for row in rows)])
        for index, column in enumerate(columns)
    ]
    texts = [index for index in range(len(widths)) if not table.numeric(index)]
    excess = sum(widths) + len(widths) + 1 - width  # a space before, between and behind the columns
    while excess > 0:
        longest = max(texts, key=lambda index: widths[index], default=None)
        if longest is None or widths[longest] <= FOLDED:
            return None
        widths[longest] -= 1
        excess -= 1
    return widths


def as_records(table: Table, width: int) -> str:
    """A paragraph a row, each value behind the name of its column."""
    lines, (columns, *rows) = table.head(), table.cells()
    for row in rows:
        pairs = [f"{column} {cell or '-'}" for column, cell in zip(columns, row, strict=True)]
        line = "  " + pairs[0]
        for pair in pairs[1:]:
            if len(line) + 3 + len(pair) > width:
                lines.append(line + ",")
                line = "    " + pair
            else:
                line += ", " + pair
        lines.append(line)
    return "\n".join(lines)


def text(cell: Cell) -> str:
    """A cell as people read it: floats with three figures, nothing as a dash."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
    return visible(str(cell))


_CLEAR: Final = "\r\x1b[K"


class Line(Protocol):
    """Shows a text in place of the one before."""

    def __call__(self, text: str) -> None: ...


def is_seen() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()


def in_percent(shown: Line, what: str) -> Callable[[int, int], None]:
    """Shows how much is done, of so much: "checked 43 %"."""
    return lambda done, all: shown(f"{what} {100 * done // max(all, 1)} %")


@contextmanager
def line() -> Generator[Line]:
    """Shows a line on standard error, so that what a command prints stays clean. It is gone when the work is over."""
    if not is_seen():
        yield lambda text: None
        return
    try:
        yield show_over
    finally:
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()


def show_over(text: str) -> None:
    """Shows the text, as much of it as the terminal is wide, in place of the line on which the cursor stands."""
    width = shutil.get_terminal_size().columns - 1
    sys.stderr.write(_CLEAR + visible(text)[:width])
    sys.stderr.flush()


NAMES: Final = {"\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left", " ": "space"}
"""The sequences that terminals send for keys that have no letter."""

Pressed = Callable[[], list[str]]


def can_press() -> bool:
    """Whether a person sits at a terminal, and what is typed there is meant for us."""
    return has_terminal() and _is_in_front(sys.stdin.fileno())


@contextmanager
def keys() -> Generator[Pressed]:
    """A function that gives the keys pressed since its last call, and never waits; none where nobody can press any.

    In the background of a shell (`&`, or Ctrl-Z and `bg`) the terminal is left alone: to touch it would stop us.
    """
    if not has_terminal():
        yield list
        return
    terminal = _Terminal(sys.stdin.fileno())
    try:
        yield terminal.pressed
    finally:
        terminal.restore()


class _Terminal:
    """Gives keys while we are in front; each time asked anew, since a shell moves us there and back."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._before: list[Any] | None = None
        """How the shell had set it up."""
        self._is_ours()

    def pressed(self) -> list[str]:
        return _read(self._descriptor) if self._is_ours() else []

    def _is_ours(self) -> bool:
        """Whether we may touch it; then it gives keys without Enter."""
        if not _is_in_front(self._descriptor):
            return False
        found = termios.tcgetattr(self._descriptor)
        if found[tty.LFLAG] & termios.ICANON:  # also when a shell has set it back
            self._before = found
            tty.setcbreak(self._descriptor, termios.TCSANOW)
        return True

    def restore(self) -> None:
        if self._before is not None and _is_in_front(self._descriptor):
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)


def has_terminal() -> bool:
    """Whether there are keys at all; `can_press` says whether they are ours just now."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())


def _is_in_front(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # a terminal that does not control us stops nobody
        return True


def _read(descriptor: int) -> list[str]:
    text = ""
    while select.select([descriptor], [], [], 0)[0]:
        read = os.read(descriptor, 1024)
        if not read:
            break
        text += read.decode(errors="ignore")
    return split_keys(text)


def split_keys(text: str) -> list[str]:
    """The keys of what a terminal sent: names for those without a letter."""
    found: list[str] = []
    while text:
        code = next((code for code in NAMES if text.startswith(code)), text[0])
        found.append(NAMES.get(code, code))
        text = text[len(code) :]
    return found


LOOK_S: Final = 0.1
"""How often the keyboard is looked at."""


def windows(length: float, most: int | None) -> Generator[None]:
    """Yields at the end of each window of `length` seconds, at most so many times; ends when somebody presses `q`.

    A window that ends late because the caller took long does not make the next one shorter than nothing.
    """
    ends_s, left = CLOCK.monotonic(), most
    with keys() as pressed:
        while left is None or left > 0:
            ends_s = max(ends_s + length, CLOCK.monotonic())
            if not _pause(ends_s, pressed):
                return
            yield
            left = None if left is None else left - 1


def _pause(until_s: float, pressed: Pressed) -> bool:
    """Whether the time has come; False: `q` was pressed before."""
    while (left := until_s - CLOCK.monotonic()) > 0:
        if "q" in pressed():
            return False
        time.sleep(min(left, LOOK_S))
    return "q" not in pressed()
