"""Loads the player: C that calls our own core by name; the core brings no file to link with (rtmw/net/library.py)."""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any

__all__ = ["CUE", "Player"]

_core: Any = import_module("rtmw.shm._core")
ctypes.CDLL(_core.__file__, mode=ctypes.RTLD_GLOBAL)

from rtmw.replay._player import CUE, Player  # noqa: E402  the names above have to be there first
