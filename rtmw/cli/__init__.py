"""The `rtmw` command: look at a domain, publish and echo by hand, repair, and the demonstration."""

from rtmw.cli.command import main

__all__ = ["main"]
