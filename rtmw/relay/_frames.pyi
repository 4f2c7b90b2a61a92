"""What a relay does with each frame: dividing what came, packing, sums; see _frames.c."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from typing_extensions import disjoint_base

from rtmw.relay.frame import Frame, Kind, Packet

_F = TypeVar("_F")

def checksums(total: int, /) -> tuple[bytes, bytes]:
    """The checksum in each of the two forms. `total`: the sum of all other bytes, header included."""

def total_of(head: bytes, data: bytes, /) -> int:
    """The sum of all bytes of a frame but header and checksum."""

def frame_of(made: type[_F], head: bytes, data: bytes, /) -> _F: ...
def pack(head: bytes, data: bytes, checksum: str, header: int, answer: bytes, longest: int, /) -> bytes | None:
    """A frame of the paper. None: no frame can carry the data, or there is no such checksum."""

@disjoint_base
class Splitter:
    """The splitter of the paper's frames; its subclass says what is made of each."""

    def __init__(
        self, made: type[Frame], checksum: str, header: int, answer: bytes, longest: int, bad: Counter[str], /
    ) -> None: ...
    @property
    def checksum(self) -> str:
        """A, B, or auto: nothing has come yet that says it."""

    @property
    def bad(self) -> Counter[str]: ...
    @property
    def waiting(self) -> int:
        """Bytes of a frame that has not come whole."""

    def feed(self, data: bytes | bytearray | memoryview, /) -> list[Frame]:
        """The frames that are whole with these bytes, in their order."""

@disjoint_base
class OwnSplitter:
    """The splitter of the second format; its subclass says what is made of each frame."""

    def __init__(
        self,
        made: type[Frame],
        packet: type[Packet],
        kinds: tuple[Kind, ...],
        longest: int,
        crc: Callable[[bytes], int] | None,
        error: type[Exception],
        /,
    ) -> None: ...
    @property
    def waiting(self) -> int:
        """Bytes of a frame that has not come whole."""

    def feed(self, data: bytes | bytearray | memoryview, /) -> list[Packet]:
        """The frames that are whole with these bytes. Raises FrameError: then the connection is to be closed."""
