"""Columns as Python sees them; see _columns.h and column.h."""

from typing import final

from typing_extensions import Buffer

NUMBER: int
BOOLEAN: int
CHAR: int
ENUM: int
BITMASK: int
TEXT: int
OCTETS: int
OCTET_ROW: int
SEQUENCE: int
ARRAY: int
STRUCT: int
UNION: int
BIT: int

@final
class Memory(Buffer):
    def __buffer__(self, flags: int, /) -> memoryview: ...

_Parts = tuple[int, Memory | None, Memory | None, Memory | None]
"""Rows, and what lies in memory of a column: validity, offsets, values."""

@final
class Program:
    def __new__(
        cls,
        ops: list[
            tuple[
                int,
                tuple[int, int],
                int,
                bool,
                bool,
                bool,
                bool,
                int,
                int,
                tuple[int, int],
                int,
                tuple[tuple[int, bytes | int], ...],
            ]
        ],
        appendable: bool,
    ) -> Program: ...
    def decode(
        self, data: Buffer, position: Buffer, size: Buffer, permissive: bool, /
    ) -> tuple[list[_Parts] | None, int, int, int, str]: ...
    def ranges(self, data: Buffer, position: Buffer, size: Buffer, wanted: Buffer, /) -> bytes | None:
        """Of each column that is wanted (u4 op, u4 kind: its place among `int8` ... `double`) a byte that says whether
        there is a range, and the least and the largest number, of 8 bytes each. None: a payload is damaged.
        """

    def encode(
        self,
        header: int,
        rows: int,
        sources: list[tuple[int, Buffer | None, Buffer | None, Buffer | None]],
        /,
    ) -> tuple[tuple[Memory, Memory, Memory] | None, int, int, str]: ...

def pack(data: Buffer, position: Buffer, size: Buffer, /) -> _Parts: ...
