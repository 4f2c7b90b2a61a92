"""Packages that only some uses of rtmw need."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from rtmw.errors import NotInstalled

MISSING: Final = "{package} is not installed, which {use} needs; install it with: pip install 'rtmw[{extra}]'"
"""One line: a command shows the text of an error with its line ends escaped."""


def needed(module: str, package: str, extra: str, use: str) -> Any:
    """The module. NotInstalled names the package that is missing, and the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not error.name or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise NotInstalled(MISSING.format(package=package, use=use, extra=extra)) from error


@contextmanager
def needing_dds(use: str) -> Generator[None]:
    """What is imported inside may need cyclonedds. Where cyclonedds is missing, NotInstalled names the command that
    installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cyclonedds":
            raise
        raise NotInstalled(MISSING.format(package="cyclonedds", use=use, extra="dds")) from error
