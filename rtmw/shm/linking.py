"""Lets the C modules of services call the core's functions by name: the core comes without a file to link with."""

from __future__ import annotations

import ctypes

from rtmw.shm import _core


def make_linkable() -> None:
    """Makes the core's functions visible to C modules that are imported from now on."""
    ctypes.CDLL(_core.__file__, mode=ctypes.RTLD_GLOBAL)
