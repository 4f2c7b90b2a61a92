"""The compiled codec as Python sees it; see _cdr.c and cdr.h."""

from collections.abc import Callable
from typing import Any, final

from typing_extensions import Buffer

SIGNED: int
UNSIGNED: int
FLOAT: int
BOOLEAN: int
CHAR: int
ENUM: int
BITMASK: int
TEXT: int
OCTETS: int
OCTET_LIST: int
OCTET_ROW: int
SEQUENCE: int
ARRAY: int
OPTIONAL: int
STRUCT: int
UNION: int

@final
class Codec:
    def __new__(
        cls,
        ops: list[tuple[int, int, bool, int, int, int, str, Any, Any]],
        header: int,
        align: int,
        explain: Callable[[Any, Exception], Exception],
        rescue: Callable[[memoryview, int, Exception], Any],
    ) -> Codec: ...
    def encode(self, value: Any, /) -> bytes: ...
    def begin(self, value: Any, /) -> bytes | int: ...
    def write(self, value: Any, memory: Buffer, /) -> None: ...
    def decode(self, data: Buffer, /) -> Any: ...
