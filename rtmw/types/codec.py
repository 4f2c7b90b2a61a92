"""Compiles a schema to an encode and a decode function, once per type.

The source is generated from the schema alone, whose names have been checked; classes and structs are bound as objects.
The bytes are those of cyclonedds: XCDR1 for final types, XCDR2 for types with optional members or appendable parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rtmw.types.decoder import Decoder
from rtmw.types.encoder import Encoder, NeedsList
from rtmw.types.message_type import Buffer
from rtmw.types.plan import Plan
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

_PADDING: Final = 4

Encode = Callable[[Any], Buffer]
Decode = Callable[[memoryview], Any]
Explain = Callable[[Any, Exception], Exception]
"""Makes the error to raise from a value that could not be encoded."""
Rescue = Callable[[memoryview, int, Exception], Any]
"""Gives the value, or raises, when a payload could not be decoded; it got as far as the position."""


class Damage(ValueError):
    """What is wrong with a payload, and where."""

    def __init__(self, error: Exception, position: int) -> None:
        super().__init__(str(error))
        self.position = position


def header_word(schema: Schema) -> int:
    """The first two bytes of the payload, as a little-endian number."""
    return _ENCODINGS[schema.top.extensibility, schema.xcdr] << 8


def compile_encode(plan: Plan, explain: Explain) -> Encode:
    """The function from a value to its payload."""
    space: dict[str, Any] = {}
    for name in plan.functions:
        inner = Encoder(plan, listed=True, start=None)
        inner.instance(name, "v")
        inner.float()
        inner.source.line("return p")
        text = inner.source.function(plan.function("encode", name), "v, p, out, w", "", "raise")
        _define(text, inner.source.objects, space)
    try:
        encoder = _outer_encoder(plan, listed=False)
    except NeedsList:
        encoder = _outer_encoder(plan, listed=True)
    encoder.source.objects["explain"] = explain
    text = encoder.source.function("encode", "v", "", "raise explain(v, error) from None")
    _define(text, encoder.source.objects, space)
    encode: Encode = space["encode"]
    return encode


def compile_decode(plan: Plan, rescue: Rescue) -> Decode:
    """The function from a payload to its value."""
    space: dict[str, Any] = {}
    for name in plan.functions:
        inner = Decoder(plan, start=None)
        inner.instance(name, "o")
        inner.float()
        inner.source.line("return o, p")
        inner.source.objects["damage"] = _damage
        text = inner.source.function(plan.function("decode", name), "d, p", "", "raise damage(error, p) from None")
        _define(text, inner.source.objects, space)
    decoder = Decoder(plan, start=0)
    decoder.number("H", 2, "h")
    decoder.skip(2)
    decoder.refuse_then(f"h != {header_word(plan.schema)}", "another encoding")
    if plan.schema.name in plan.functions:
        decoder.float()
        decoder.source.line(f"o, p = {plan.function('decode', plan.schema.name)}(d, p)")
    else:
        decoder.instance(plan.schema.name, "o")
        decoder.flush()
    decoder.source.line(f"if len(d) != {decoder.end}:")
    decoder.source.line(f"    check_rest(d, {decoder.end})")
    decoder.source.line("return o")
    decoder.source.objects |= {"rescue": rescue, "check_rest": _check_rest}
    text = decoder.source.function("decode", "d", "p = 0", "return rescue(d, p, error)")
    _define(text, decoder.source.objects, space)
    decode: Decode = space["decode"]
    return decode


def _outer_encoder(plan: Plan, listed: bool) -> Encoder:
    encoder = Encoder(plan, listed, start=0)
    line = encoder.source.line
    if listed:
        line("out = []")
        line("w = out.append")
    encoder.number("H", 2, str(header_word(plan.schema)))
    encoder.skip(2)
    if plan.schema.name in plan.functions:
        encoder.float()
        line(f"p = {plan.function('encode', plan.schema.name)}(v, p, out, w)")
    else:
        encoder.instance(plan.schema.name, "v")
        encoder.flush()
    parts = encoder.parts
    if not listed:
        encoder.source.drop_unread("p")
    if listed:
        line("return b''.join(out)")
    else:
        line(f"return {' + '.join(parts)}" if len(parts) < 4 else f"return b''.join(({', '.join(parts)}))")
    return encoder


def _define(text: str, objects: dict[str, Any], space: dict[str, Any]) -> None:
    """Objects are bound as defaults when the definition runs; the functions find each other in `space`.

    The text holds nothing from outside but names of members, which `description` has checked.
    """
    space.update(objects)
    exec(compile(text, "<rtmw codec>", "exec"), space)


def _damage(error: Exception, position: int) -> Damage:
    return error if isinstance(error, Damage) else Damage(error, position)


def _check_rest(data: memoryview, end: int) -> None:
    """Up to three zero bytes may follow: networks pad payloads to four."""
    rest = bytes(data[end:])
    if len(rest) >= _PADDING or any(rest):
        raise ValueError(f"{len(rest)} bytes too many")
