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

@final
class Array:
    @property
    def address(self) -> int:
        """Address of a `struct ArrowArray` of structs, until somebody takes it over."""

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
    ) -> tuple[Array | None, Memory | None, int, int, int, str]:
        """Columns; a bit a row, which says that the row is there, if one is not; how many are not; of the first of
        these its number, the op that failed, and why. No columns: a row is damaged, and that is not permitted.
        """

    def ranges(self, data: Buffer, position: Buffer, size: Buffer, wanted: Buffer, /) -> bytes | None:
        """Returns for each column that is wanted (u4 op, u4 kind: its place among `int8` ... `double`) a byte that
        says whether there is a range, and the least and the largest number, of 8 bytes each. None: a payload is
        damaged."""

    def encode(
        self,
        header: int,
        rows: int,
        sources: list[tuple[int, Buffer | None, Buffer | None, Buffer | None]],
        /,
    ) -> tuple[tuple[Memory, Memory, Memory] | None, int, int, str]: ...

def pack(data: Buffer, position: Buffer, size: Buffer, /) -> tuple[int, Memory, Memory | None]:
    """Rows, and what lies in memory of their column: offsets, values."""
