"""Loads the node's engine: C that calls the DDS library of the cyclonedds wheel, and our own core, by name.

Neither brings a file to link with. So both are loaded with their names made global, and the engine finds them there.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rtmw.errors import RtmwError

if TYPE_CHECKING:
    from rtmw.net import _engine


def dds_library() -> ctypes.CDLL:
    """Cyclone DDS, its names global."""
    library: Any = import_module("cyclonedds.__library__")
    import_module("cyclonedds.internal")  # checks the library, and says what is wrong with it
    return ctypes.CDLL(str(library.library_path), mode=ctypes.RTLD_GLOBAL)


def load_engine() -> type[_engine.Engine]:
    """The class of the engine. Raises RtmwError when the DDS library is not one it knows."""
    core: Any = import_module("rtmw.shm._core")
    dds_library()
    ctypes.CDLL(core.__file__, mode=ctypes.RTLD_GLOBAL)
    try:
        from rtmw.net._engine import Engine
    except ImportError as error:
        raise RtmwError(f"the node's engine does not fit the installed cyclonedds: {error}; install 11.0") from error
    return Engine
