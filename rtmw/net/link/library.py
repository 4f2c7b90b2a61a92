"""Loads the C of lines, which calls our own core by name."""

from __future__ import annotations

from rtmw.shm import make_linkable

__all__ = ["Bus", "Connection", "Context", "Line", "Route", "TlsError", "openssl"]

make_linkable()

from rtmw.net.link._line import Bus, Connection, Context, Line, Route, TlsError, openssl  # noqa: E402
