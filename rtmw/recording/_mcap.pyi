from typing import final

from typing_extensions import Buffer

@final
class ChunkBuilder:
    """Message records while they are collected, and what their indexes are made of. A buffer: its records.

    `limit` is how many bytes it is meant to have; a larger message makes it larger.
    """

    address: int  # of the struct, for the recorder's collector
    start_ns: int
    end_ns: int
    size: int

    def __new__(cls, limit: int) -> ChunkBuilder: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def is_full_for(self, payload: int, /) -> bool: ...
    def append(
        self,
        channel: int,
        payload: Buffer,
        log_time: int,
        publish_time: int,
        sequence: int,
        priority: int,
        publisher: int,
        expires: int,
        flags: int,
        /,
    ) -> None: ...
    def extend(self, data: Buffer, columns: tuple[Buffer, ...], channels: Buffer, first: int, /) -> int: ...
    def prepend(self, records: Buffer, /) -> None: ...
    def clear(self) -> None: ...
    def indexes(self) -> bytes: ...
    def channels(self) -> list[tuple[int, int, int]]: ...
    def places(self) -> tuple[bytes, bytes]:
        """Returns the positions and the sizes of the payloads in the records, i8, in the order of `channels`."""

    def side(self) -> bytes: ...
    def latest(self, channel: int, /) -> list[tuple[bytes, int, int, int, int, int, int]]:
        """The last message of each publisher, 16 at most: payload, log time, publish time, sequence, priority,
        publisher, expiry.
        """

def scan(
    data: Buffer, expected: int, /
) -> tuple[bytearray, bytearray, int, int, int | None, list[tuple[int, int, int]], bool]:
    """The records of a chunk: position i8 and size i8 of each payload, the earliest and latest log time, the channel
    of all messages (None: of several), (opcode, position, length) of schemas and channels, and whether a log or publish
    time is 2^63 or more.

    `expected`: how many messages there should be; if there are others, it only takes longer.
    """

def field(data: Buffer, position: Buffer, before: int, width: int, /) -> bytearray:
    """A number in the header of each message, which begins `before` bytes before its payload."""

def walk(window: Buffer, base: int, file_size: int, is_ours: bool, /) -> tuple[bytes, int, int, int, str | None]:
    """Entries of the data section that begin in a window at `base`; where to go on, with how many bytes; why it ended.

    An entry is six times u8 and two u4: see `struct mcap_entry` and `enum mcap_walk_end` in scan.h.
    """
