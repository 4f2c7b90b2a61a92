"""For C modules of the services, which call the core by name: it comes without a file to link with."""

from __future__ import annotations

import ctypes

from rtmw.shm import _core


def make_linkable() -> None:
    """From here on a C module that is imported finds the core's functions."""
    ctypes.CDLL(_core.__file__, mode=ctypes.RTLD_GLOBAL)
