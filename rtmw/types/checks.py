"""The single words of a description, each checked before anything is made of it.

A function returns what it was given, or raises ValueError with words that say what is wrong. The limits are far above
those of any type that a person wrote; they bound the time and the memory that a hostile description takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from keyword import iskeyword
from typing import Any, Final, cast

TYPES: Final = 256
"""Definitions in one description."""
MEMBERS: Final = 4096
"""Members, labels, enumerators and bits of all definitions of one description."""
NAME_LIMIT: Final = 127
"""Bytes of the name of a type."""
_WORD_LIMIT: Final = 255
"""Characters of the name of a member, and of the text of an annotation."""
_COUNT_LIMIT: Final = 1 << 31
_ID_LIMIT: Final = 1 << 28
"""DDS has no larger member ids."""

_TYPE_NAME: Final = re.compile(r"\w+(::\w+)*", re.ASCII)
_MEMBER_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ENUM_WORD: Final = re.compile(r"mro|_\w*_", re.ASCII)
"""Names that Python's Enum keeps for itself."""
_SHOWN: Final = 40


def shown(value: Any) -> str:
    """The value in an error message: short, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # a broken __repr__ must not hide the error that is being explained
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def with_article(word: str) -> str:
    """`an int64`, `a uint8`."""
    return f"{'an' if word[:1].lower() in tuple('aeio') else 'a'} {word}"


def record(value: Any, what: str) -> dict[str, Any]:
    """A JSON object."""
    if type(value) is not dict:
        raise ValueError(f"{shown(value)} is not {what}")
    return cast("dict[str, Any]", value)


def is_a(value: Any, *kinds: type) -> bool:
    """`isinstance` on what may be anything, and stays so for the type checkers."""
    return isinstance(value, kinds)


def row(value: Any, what: str, least: int = 0, most: int = MEMBERS) -> list[Any]:
    """A JSON array of `least` to `most` elements."""
    if not is_a(value, list):
        raise ValueError(f"{shown(value)} is not {what}")
    elements: list[Any] = value
    if not least <= len(elements) <= most:
        raise ValueError(f"{what} has {len(elements)} elements; it has {least} to {most}")
    return elements


def shown_name(name: str) -> str:
    """The name of a type as Python programs write it, `ops.Flight`; DDS and the region have it as `ops::Flight`."""
    return name.replace("::", ".")


def type_name(name: Any) -> str:
    if isinstance(name, str) and len(name) > NAME_LIMIT:
        raise ValueError(f"type name {shown(name)} has {len(name)} characters; at most {NAME_LIMIT} fit")
    return _name(name, _TYPE_NAME)


def member_name(name: Any) -> str:
    return _name(name, _MEMBER_NAME)


def enumerator_name(name: Any) -> str:
    if _ENUM_WORD.fullmatch(_name(name, _MEMBER_NAME)):
        raise ValueError(f"{name!r} cannot be the name of an enumerator")
    return str(name)


def _name(name: Any, pattern: re.Pattern[str]) -> str:
    if (
        not isinstance(name, str)
        or len(name) > _WORD_LIMIT
        or not pattern.fullmatch(name)
        or iskeyword(name)
        or name.startswith("__")
    ):
        raise ValueError(f"{shown(name)} is not a name")
    return name


def number(value: Any, least: int, most: int, what: str) -> int:
    """A whole number within bounds; a boolean is none."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{shown(value)} is not {what}")
    return value


def count(value: Any, least: int = 0) -> int:
    return number(value, least, _COUNT_LIMIT - 1, "a count")


def bit_bound(value: Any) -> int:
    return number(value, 1, 64, "a bit bound")


def text(value: Any) -> str:
    """A short text that has bytes in UTF-8: JSON can spell halves of characters, which have none."""
    if not isinstance(value, str) or len(value) > _WORD_LIMIT:
        raise ValueError(f"{shown(value)} is not a name")
    value.encode()
    return value


def boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{shown(value)} is not true or false")
    return value


def one_of(value: Any, *words: str) -> str:
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{shown(value)} is none of {', '.join(words)}")
    return value


def distinct(values: Iterable[Any], what: str) -> None:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{what} {shown(value)} is there twice")
        seen.add(value)


def _hash_text(value: Any) -> str | None:
    """The text stands between quotation marks in IDL; None: the name of the member."""
    if value is not None and not (isinstance(value, str) and _is_plain_text(value)):
        raise ValueError(f"{shown(value)} is not a hash id")
    return value


def _is_plain_text(value: str) -> bool:
    return len(value) <= _WORD_LIMIT and value.isascii() and value.isprintable() and not set(value) & {'"', "\\"}


def _member_id(value: Any) -> int:
    return number(value, 0, _ID_LIMIT - 1, "a member id")


def _idl_name(value: Any) -> str:
    """The name of a member in IDL, where Python's keywords are names like others."""
    if not isinstance(value, str) or len(value) > _WORD_LIMIT or not _MEMBER_NAME.fullmatch(value):
        raise ValueError(f"{shown(value)} is not a name")
    return value


_MEMBER_ANNOTATIONS: Final[dict[str, Any]] = {
    "key": boolean,
    "id": _member_id,
    "hash_id": _hash_text,
    "must_understand": boolean,
    "name": _idl_name,
}


def of_member(given: Any) -> dict[str, Any]:
    """The annotations of a member."""
    annotations = record(given, "the annotations of a member")
    for key, value in annotations.items():
        if key not in _MEMBER_ANNOTATIONS:
            raise ValueError(f"{shown(key)} is not an annotation of a member")
        _MEMBER_ANNOTATIONS[key](value)
    return dict(annotations)


def _extensibility(value: Any) -> str:
    return one_of(value, "final", "appendable", "mutable")


def _auto_id(value: Any) -> str:
    return one_of(value, "hash", "sequential")


def _key_list(value: Any) -> list[str]:
    return [member_name(name) for name in row(value, "a key list")]


_STRUCT_ANNOTATIONS: Final[dict[str, Any]] = {
    "extensibility": _extensibility,
    "xcdrv2": boolean,
    "autoid": _auto_id,
    "keylist": _key_list,
}


def of_struct(part: dict[str, Any]) -> dict[str, Any]:
    """The annotations of a struct or union, which lie beside its members."""
    if "extensibility" not in part:
        raise ValueError("a struct or union has no extensibility")
    return {key: check(part[key]) for key, check in _STRUCT_ANNOTATIONS.items() if key in part}
