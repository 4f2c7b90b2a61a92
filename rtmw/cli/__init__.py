"""The `rtmw` command: look at a domain, publish and echo by hand, repair, and the demonstration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["main"]

INTERRUPTED: Final = 130
"""The status after Ctrl-C, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `rtmw` with these arguments (default: those of the process) and give its exit status."""
    try:
        from rtmw.cli.command import run  # takes a quarter of a second, and Ctrl-C may come meanwhile

        return run(argv)
    except KeyboardInterrupt:
        return INTERRUPTED
