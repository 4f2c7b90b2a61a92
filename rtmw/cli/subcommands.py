"""Commands of a command, such as `rtmw log info`. What runs one is imported when it runs: numpy, and more."""

from __future__ import annotations

import argparse
from functools import partial
from importlib import import_module
from typing import Any

__all__ = ["add_subcommand"]


def add_subcommand(kinds: Any, name: str, help: str, home: tuple[str, str]) -> argparse.ArgumentParser:
    """A command with a description and `--json`. `home`: module and function that runs it, with the arguments."""
    parser: argparse.ArgumentParser = kinds.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    parser.set_defaults(run=partial(_run, *home))
    parser.add_argument("--json", action="store_true", help="for programs: JSON; one object a line where it streams")
    return parser


def _run(module: str, function: str, arguments: argparse.Namespace) -> int:
    status: int = getattr(import_module(module), function)(arguments)
    return status
