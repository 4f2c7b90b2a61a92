"""Loads the collector, which calls our own core by name: that comes without a file to link with."""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any

__all__ = ["Collector"]

_core: Any = import_module("rtmw.shm._core")
ctypes.CDLL(_core.__file__, mode=ctypes.RTLD_GLOBAL)

from rtmw.record._collector import Collector  # noqa: E402
