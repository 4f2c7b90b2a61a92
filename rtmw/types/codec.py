"""Makes the compiled codec of a type, once per type.

The bytes are those of cyclonedds: XCDR1 for final types, XCDR2 for types with optional members or appendable parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rtmw.types._cdr import Codec
from rtmw.types.plan import Plan
from rtmw.types.program import compile_program
from rtmw.types.schema import Schema

_ENCODINGS: Final = {
    ("final", 1): 0x01,
    ("appendable", 1): 0x01,
    ("mutable", 1): 0x03,
    ("final", 2): 0x07,
    ("appendable", 2): 0x09,
    ("mutable", 2): 0x0B,
}
"""Second byte of the encapsulation header: format, little endian."""

Explain = Callable[[Any, Exception], Exception]
"""Makes the error to raise from a value that could not be encoded."""
Rescue = Callable[[memoryview, int, Exception], Any]
"""Gives the value, or raises, when a payload could not be decoded; it got as far as the position."""


def header_word(schema: Schema) -> int:
    """The first two bytes of the payload, as a little-endian number."""
    return _ENCODINGS[schema.top.extensibility, schema.xcdr] << 8


def compile_codec(plan: Plan, explain: Explain, rescue: Rescue) -> Codec:
    """The codec of a plan: `encode` from a value to its payload, `decode` back."""
    return Codec([*compile_program(plan)], header_word(plan.schema), plan.max_align, explain, rescue)
