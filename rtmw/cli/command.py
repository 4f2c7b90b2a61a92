"""Run one command: its exit status, and what becomes of the errors.

Status: 0 done · 1 could not, in one sentence on stderr · 2 wrong usage · 130 Ctrl-C (rtmw/cli/__init__.py) · 141 the
reader went away.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rtmw.cli.arguments import build_parser
from rtmw.cli.show import warn
from rtmw.errors import RtmwError

if TYPE_CHECKING:
    from types import TracebackType


def run(argv: Sequence[str] | None = None) -> int:
    """Run `rtmw` with these arguments and give its exit status. KeyboardInterrupt passes."""
    sys.excepthook = _show_fault
    arguments = build_parser().parse_args(argv)
    try:
        status = int(arguments.run(arguments))
        sys.stdout.flush()
        return status
    except RtmwError as error:
        warn(f"rtmw: {error}")
        return 1
    except BrokenPipeError:
        # What is left in the buffer must not be written at exit, where it would fail once more and be reported.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _show_fault(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    """An error that no command expects, as Python shows it; its text may be of others, too."""
    import traceback  # only needed here

    warn(*"".join(traceback.format_exception(error)).splitlines())
