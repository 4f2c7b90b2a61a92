"""The IDL compiler of the cyclonedds wheel: `python tests/idl_compiler.py FILE.idl`, from the folder to write to.

The wheel's own `idlc` executable crashes before its first line (cyclonedds-python issue 336), but the parser and the
Python generator that it would load are sound libraries. This does what `idlc -l py` does: put the source into the
parser's state, parse, generate. Run it as a process of its own, because a fault in C would take the caller along.
"""

from __future__ import annotations

import ctypes
import sys
from importlib.util import find_spec
from pathlib import Path

EXTENDED_TYPES, ANONYMOUS_TYPES, ANNOTATIONS = 1 << 2, 1 << 3, 1 << 4


class File(ctypes.Structure):
    """`struct idl_file` of cyclonedds 11."""

    _fields_ = (("next", ctypes.c_void_p), ("name", ctypes.c_char_p))


class Source(ctypes.Structure):
    """`struct idl_source` of cyclonedds 11."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("parent", "previous", "next", "includes")),
        ("additional_directory", ctypes.c_bool),
        ("path", ctypes.POINTER(File)),
        ("file", ctypes.POINTER(File)),
    )


class State(ctypes.Structure):
    """The head of `struct idl_pstate` of cyclonedds 11."""

    _fields_ = (
        ("keylists_and_flags", ctypes.c_uint64),
        ("extensibility_and_nested", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in ("track_warning", "paths", "files", "sources")),
        *((name, ctypes.c_void_p) for name in ("global_scope", "annotation_scope", "scope", "directive")),
        *((name, ctypes.c_void_p) for name in ("builtin_root", "root")),
        ("buffer_data", ctypes.c_void_p),
        ("buffer_size", ctypes.c_size_t),
        ("buffer_used", ctypes.c_size_t),
        ("digest", ctypes.c_uint8 * 16),
        ("scanner_state", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in ("cursor", "limit", "position_source", "position_file")),
        ("line", ctypes.c_uint32),
        ("column", ctypes.c_uint32),
    )


def libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """Parser and Python generator."""
    spec = find_spec("cyclonedds")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    shared = package.parent / "cyclonedds.libs"
    ctypes.CDLL(str(next(shared.glob("libddsc*"))), mode=ctypes.RTLD_GLOBAL)
    parser = ctypes.CDLL(str(next(shared.glob("libcycloneddsidl*"))), mode=ctypes.RTLD_GLOBAL)
    return parser, ctypes.CDLL(str(next(package.glob("_idlpy*.so"))))


def compile_idl(path: Path) -> int:
    """Write Python modules for the file into the current folder; 0 if it is valid IDL."""
    parser, generator = libraries()
    pointer = ctypes.POINTER(State)()
    flags = ctypes.c_uint32(EXTENDED_TYPES | ANONYMOUS_TYPES | ANNOTATIONS)
    if parser.idl_create_pstate(flags, None, ctypes.byref(pointer)):
        return 1
    file = File(None, str(path.resolve()).encode())
    source = Source(path=ctypes.pointer(file), file=ctypes.pointer(file))
    text = path.read_bytes()
    buffer = ctypes.create_string_buffer(text, len(text) + 16)
    state = pointer.contents
    state.sources = state.position_source = ctypes.addressof(source)
    state.paths = state.files = state.position_file = ctypes.addressof(file)
    state.buffer_data = state.cursor = ctypes.addressof(buffer)
    state.buffer_size = state.buffer_used = len(text)
    state.limit = ctypes.addressof(buffer) + len(text)
    state.line = state.column = 1
    return int(parser.idl_parse(pointer) or generator.generate(pointer, None))


if __name__ == "__main__":
    sys.exit(1 if compile_idl(Path(sys.argv[1])) else 0)
