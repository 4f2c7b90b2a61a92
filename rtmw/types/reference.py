"""cyclonedds' own encoder and decoder: for constructs that the compiled codec leaves out, and for foreign encodings.

Its decoder trusts its input, because a C layer checks it elsewhere. Here nothing does, so a value only counts when
encoding it again gives the same bytes. Padding may have any bytes: the value is encoded over a copy of the payload,
which keeps those that no member has.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rtmw.errors import ValueMismatch

if TYPE_CHECKING:
    from typing_extensions import Buffer as Lender


def encode_slowly(value: Any) -> bytes:
    """The payload as cyclonedds writes it."""
    payload: bytes = value.serialize()
    return payload


def decode_slowly(cls: Any, name: str, data: Lender) -> Any:
    """The value of a payload in any byte order and CDR version. Raises ValueMismatch."""
    payload = bytes(data)
    try:
        value = cls.deserialize(payload)
        again = _encode_like(value, payload)
    except Exception as error:  # struct.error, UnicodeDecodeError, AssertionError and plain Exception
        raise ValueMismatch(f"{name}: payload of {len(payload)} bytes is damaged: {error!r}") from error
    rest = payload[len(again) :]
    if payload[:2] != again[:2] or payload[4 : len(again)] != again[4:] or len(rest) > 3 or any(rest):
        raise ValueMismatch(f"{name}: payload of {len(payload)} bytes is damaged: its content contradicts itself")
    return value


def _encode_like(value: Any, payload: bytes) -> bytes:
    support: Any = import_module("cyclonedds.idl._support")
    order = support.Endianness.Little if payload[1] & 1 else support.Endianness.Big
    over = support.Buffer(payload)
    over.zero_out = lambda: None  # the encoder would take the bytes of the payload away
    again: bytes = value.serialize(buffer=over, endianness=order, use_version_2=payload[1] > 3)
    return again
