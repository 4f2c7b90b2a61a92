"""How fields of controls stand in JSON: each is read within bounds."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from copy import copy
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from rtmw.qos import Reliability
from rtmw.types.message_type import DESCRIPTION_LIMIT

TEXT_MOST: Final = 1024
"""Characters of a text: names of topics and types are shorter on each bus."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can write, and UTF-8 cannot."""
NUMBER_MOST: Final = (1 << 63) - 1


class Form(NamedTuple):
    """How a field stands in JSON. `read` raises ValueError for what it cannot be."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = copy


def whole(least: int, most: int) -> Form:
    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return value

    return Form(read)


def _read_text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > TEXT_MOST or _SURROGATE.search(value):
        raise ValueError(f"a text of at most {TEXT_MOST} characters")
    return value


def _read_name(value: Any) -> str:
    if not _read_text(value):
        raise ValueError("a name")
    return cast("str", value)


def one_of(words: tuple[str, ...]) -> Form:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return cast("str", value)

    return Form(read)


def _read_flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("true or false")
    return value


def _read_uuid(value: Any) -> UUID:
    try:
        return UUID(hex=_read_text(value))
    except ValueError:
        raise ValueError("a UUID of 32 hexadecimal digits") from None


def _read_reliability(value: Any) -> Reliability:
    if not isinstance(value, str) or value not in Reliability.__members__:
        raise ValueError(f"one of {', '.join(Reliability.__members__)}")
    return Reliability[value]


def _read_identity(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) != 16:
        raise ValueError("16 hexadecimal digits, or null")
    return int(value, 16)


def _read_description(value: Any) -> bytes:
    if not isinstance(value, str) or len(value) > 4 * (DESCRIPTION_LIMIT + 2) // 3:
        raise ValueError(f"at most {DESCRIPTION_LIMIT} bytes in base64")
    return base64.b64decode(value, validate=True)


def _write_text(value: str) -> str:
    return value[:TEXT_MOST]


def _write_uuid(value: UUID) -> str:
    return value.hex


def _write_name(value: Reliability) -> str:
    return value.name


def _write_identity(value: int | None) -> str | None:
    return None if value is None else f"{value:016x}"


def _write_description(value: bytes) -> str:
    return base64.b64encode(value).decode()


TEXT = Form(_read_text, _write_text)
NAME = Form(_read_name)
NUMBER = whole(0, NUMBER_MOST)
ROUTE = whole(1, (1 << 32) - 1)
DEPTH = whole(0, (1 << 32) - 1)
FLAG = Form(_read_flag)
RELIABILITY = Form(_read_reliability, _write_name)
UUID_HEX = Form(_read_uuid, _write_uuid)
IDENTITY = Form(_read_identity, _write_identity)
DESCRIPTION = Form(_read_description, _write_description)
