"""Loads the collector: C that calls our own core by name."""

from __future__ import annotations

from rtmw.shm import make_linkable

__all__ = ["Collector"]

make_linkable()

from rtmw.recorder._collector import Collector  # noqa: E402  the names have to be there first
