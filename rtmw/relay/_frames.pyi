"""What a relay does with each frame: dividing what came, packing, sums; see _frames.c."""

from collections import Counter
from collections.abc import Callable
from types import GenericAlias
from typing import Generic, TypeVar, overload

from typing_extensions import disjoint_base

from rtmw.relay.frame import Frame, Kind, Packet

_F = TypeVar("_F", Frame, Packet)

def begin(frame: type[Frame], packet: type[Packet], kinds: tuple[Kind, ...], error: type[Exception], /) -> None:
    """Says what is made of what comes, before anything does."""

def total_of(head: bytes, data: bytes, /) -> int:
    """The sum of all bytes of a frame but header and checksum."""

def frame_of(head: bytes, data: bytes, /) -> Frame:
    """The frame that came, without a look at its fields: the server makes four an order."""

def pack(head: bytes, data: bytes, checksum: str, header: int, answer: bytes, longest: int, /) -> bytes | None:
    """A frame of the paper. None: no frame can carry the data, or there is no such checksum."""

@disjoint_base
class Splitter(Generic[_F]):
    """What it is made with says which format it divides: the frame of the paper, or the second one."""

    @overload
    def __init__(self, longest: int, bad: Counter[str], checksum: str, header: int, answer: bytes, /) -> None: ...
    @overload
    def __init__(self, longest: int, crc: Callable[[bytes], int] | None, /) -> None: ...
    def __class_getitem__(cls, item: object, /) -> GenericAlias: ...
    @property
    def checksum(self) -> str:
        """A, B, or auto: nothing has come yet that says it."""

    @property
    def waiting(self) -> int:
        """Bytes of a frame that has not come whole."""

    def feed(self, data: bytes | bytearray | memoryview, /) -> list[_F]:
        """The frames that are whole with these bytes, in their order."""
