"""A message type, as the rest of rtmw knows it: a name, a description, and two functions.

The description is canonical JSON under zlib. It lies in the region beside the topic, so that a program without the
class can decode; the identity is a hash of the JSON, so the same structure under the same name has the same identity
in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from rtmw.errors import RegionDamaged, UnsupportedType
from rtmw.types.checks import NAME_LIMIT, distinct, shown

if TYPE_CHECKING:
    from typing_extensions import Buffer as Lender

Buffer = bytes | bytearray | memoryview
"""The types whose values can be published as they are."""

DESCRIPTION_LIMIT: Final = 8000
_PLAIN_LIMIT: Final = 1 << 18
"""Bytes of a description's JSON. What has more packs into 8000 bytes only if it repeats itself as no type does."""


class AnyType:
    """The class of `rtmw.ANY`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "rtmw.ANY"


ANY: Final = AnyType()
"""Stands for every message type: a subscriber of `rtmw.ANY` gets all messages of its topic."""


class InPlace(Protocol):
    """Encodes a large payload where it will lie."""

    def begin(self, value: Any, /) -> bytes | int:
        """The payload, or the size of a large one. Errors as of `MessageType.encode`."""
        ...

    def write(self, value: Any, memory: memoryview, /) -> None:
        """The payload into memory of exactly that size. ValueMismatch also when the value has changed meanwhile."""
        ...


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message type, resolved. `encode` and `decode` are None for `bytes`, which travel as they are."""

    name: str
    kind: str
    """`bytes`, `numpy` or `cdr`."""
    description: bytes
    """The type's description, at most 8000 bytes; `from_description` needs nothing else."""
    identity: int
    """64 bits; equal for equal structure under an equal name."""
    encode: Callable[[Any], Buffer] | None
    """Value to payload. Raises TypeMismatch or ValueMismatch, which name the field."""
    decode: Callable[[Lender], Any] | None
    """Payload, in whatever lends its memory, to value. Raises ValueMismatch, which names the position."""
    in_place: InPlace | None = None
    """Writes a value into the message's memory, for a type whose `encode` would make a copy; None: there is no need."""


RAW: Final = MessageType(
    "bytes",
    "bytes",
    bytes.fromhex("78daab56cacecc4b51b2524aaa2c492d56d251ca4bcc4d85736b01a2730a3e"),
    0xCD2D4DB242D45B8E,
    None,
    None,
)
"""`bytes`. What `make` would give, written down: its imports take longer than the first message does."""


def make(
    document: dict[str, Any],
    encode: Callable[[Any], Buffer] | None = None,
    decode: Callable[[Lender], Any] | None = None,
    in_place: InPlace | None = None,
) -> MessageType:
    """A MessageType for a description document, whose `name` and `kind` it takes over."""
    import json  # these three are slow to import, and needed only now
    import zlib
    from hashlib import blake2b

    name: str = document["name"]
    if len(name.encode()) > NAME_LIMIT:
        raise UnsupportedType(f"type name {name!r} has {len(name.encode())} bytes; at most {NAME_LIMIT} fit")
    plain = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    packed = zlib.compress(plain, 9)
    if len(packed) > DESCRIPTION_LIMIT:
        raise UnsupportedType(
            f"type {name!r} takes {len(packed)} bytes to describe; at most {DESCRIPTION_LIMIT} fit: use fewer fields"
        )
    identity = int.from_bytes(blake2b(plain, digest_size=8).digest(), "little")
    return MessageType(name, document["kind"], packed, identity, encode, decode, in_place)


def read_document(data: bytes) -> dict[str, Any]:
    """The JSON object inside a description, with a `kind` and a `name`. Raises RegionDamaged.

    Its size is known before it is unpacked, and no more is unpacked than JSON of a type has.
    """
    import json
    import zlib

    try:
        if len(data) > DESCRIPTION_LIMIT:
            raise ValueError(f"at most {DESCRIPTION_LIMIT} may be")
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(data, _PLAIN_LIMIT)
        if not unpacker.eof or unpacker.unused_data:
            raise ValueError("it is cut short, or too long")
        document: Any = json.loads(plain.decode(), object_pairs_hook=_object, parse_constant=_no_number)
    except (zlib.error, ValueError, RecursionError) as error:
        raise RegionDamaged(f"a type description of {len(data)} bytes cannot be read: {error}") from error
    if type(document) is not dict:
        raise RegionDamaged("a type description is not a JSON object")
    found = cast("dict[str, Any]", document)
    for key in ("kind", "name"):
        if not isinstance(found.get(key), str):
            raise RegionDamaged(f"a type description has the {key} {shown(found.get(key))}, which is no text")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    distinct((key for key, _ in pairs), "key")
    return dict(pairs)


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")
