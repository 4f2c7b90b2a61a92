"""numpy dtypes as messages: the payload is the array's memory, read back in place.

A plain dtype stands for a 1-D array of any length; a subarray dtype, such as `np.dtype((np.float32, (480, 640)))`, for
an array of exactly that shape. numpy is imported only when the given type is numpy's. Arrays can be had from plain
data, too, as JSON has it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from rtmw.errors import RegionDamaged, TypeMismatch, UnsupportedType, ValueMismatch
from rtmw.types import checks
from rtmw.types.message_type import MessageType, make
from rtmw.types.schema import DEEPEST

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Buffer as Lender


_FIXED_KINDS = "biufcSUVmM"
_PLAIN = re.compile(r"[<>|=][biufcSUVmM]\d{1,10}(\[\d{0,9}[a-zA-Zμ]{1,2}(/\d{1,9})?\])?", re.ASCII)
"""The text that numpy writes for a dtype without members; numpy would read much else."""
_MOST_SIDES = 32
"""Dimensions of one array."""


def dtype_of(given: Any) -> np.dtype[Any] | None:
    """The dtype that `given` is or names as a numpy scalar class; None when it is not numpy's."""
    if "numpy" not in sys.modules:
        return None
    import numpy as np

    dtype_class: Any = np.dtype
    if isinstance(given, dtype_class):
        return cast("np.dtype[Any]", given)
    scalar_class: Any = np.generic
    return np.dtype(given) if isinstance(given, type) and issubclass(given, scalar_class) else None


def numpy_type(dtype: np.dtype[Any]) -> MessageType:
    """The MessageType of a dtype."""
    import numpy as np

    base, shape = dtype.base, dtype.shape
    if base.hasobject or base.kind not in _FIXED_KINDS or base.itemsize == 0:
        raise UnsupportedType(f"numpy dtype {dtype} has no fixed size in memory; messages need numbers of fixed size")
    if _has_nothing(dtype):
        raise UnsupportedType(f"numpy dtype {checks.shown(dtype)} holds nothing, or a member of it does")
    name, descr = _name(base, shape), np.lib.format.dtype_to_descr(base)
    document = {"name": name, "kind": "numpy", "dtype": descr, "shape": list(shape)}
    return make(document, _encoder(dtype), _decoder(dtype, name))


def numpy_from_document(document: dict[str, Any]) -> MessageType:
    """The MessageType that a description names. Raises RegionDamaged or UnsupportedType."""
    return numpy_type(dtype_from_document(document))


def dtype_from_document(document: dict[str, Any]) -> np.dtype[Any]:
    """The dtype that a description names. Raises RegionDamaged."""
    import numpy as np

    try:
        reader = _Reader()
        base = np.lib.format.descr_to_dtype(reader.descr(document["dtype"], 0))
        shape = reader.shape(document["shape"])
        return np.dtype((base, shape)) if shape else base
    except Exception as error:  # numpy raises TypeError, ValueError, KeyError, SyntaxError on a bad dtype
        name = checks.shown(document.get("name"))
        raise RegionDamaged(f"type description of {name} holds no numpy dtype: {error}") from error


def _name(base: np.dtype[Any], shape: tuple[int, ...]) -> str:
    prefix = "numpy:" + (str(shape).replace(" ", "") if shape else "")
    text = base.str if base.names is None else "{" + ",".join(base.names) + "}"
    return _shortened(prefix + text)


def _shortened(name: str) -> str:
    """Cuts a name to the bytes that a type's name may have: `...}` replaces the characters at its end, at least 5."""
    plain = name.encode()
    if len(plain) <= checks.NAME_LIMIT:
        return name
    kept = plain[: checks.NAME_LIMIT - 4].decode(errors="ignore")
    return name[: min(len(kept), len(name) - 5)] + "...}"


def _has_nothing(dtype: np.dtype[Any]) -> bool:
    """Elements that take no memory could be there any number of times."""
    base = dtype.base
    return 0 in dtype.shape or base.itemsize == 0 or any(_has_nothing(base[name]) for name in base.names or ())


class _Reader:
    """Makes what numpy takes of JSON, which has lists only: members are tuples within a list."""

    def __init__(self) -> None:
        self._members = 0

    def descr(self, given: Any, level: int) -> Any:
        if isinstance(given, str):
            if not _PLAIN.fullmatch(given):
                raise ValueError(f"{checks.shown(given)} is no dtype of fixed size")
            return given
        entries = checks.row(given, "a dtype with members")
        self._members += len(entries)
        if self._members > checks.MEMBERS or level >= DEEPEST:
            raise ValueError(f"more than {checks.MEMBERS} members, or nested more than {DEEPEST} deep")
        return [self._member(checks.row(entry, "a member", 2, 3), level) for entry in entries]

    def _member(self, entry: list[Any], level: int) -> tuple[Any, ...]:
        name, dtype, *shape = entry
        words = checks.row(name, "title and name", 2, 2) if isinstance(name, list) else [name]
        for word in words:
            checks.text(word)
        return (words[0] if len(words) == 1 else tuple(words), self.descr(dtype, level + 1), *map(self.shape, shape))

    def shape(self, given: Any) -> tuple[int, ...]:
        return tuple(checks.count(side, 1) for side in checks.row(given, "a shape", 0, _MOST_SIDES))


def _encoder(dtype: np.dtype[Any]) -> Callable[[Any], memoryview]:
    import numpy as np

    base, shape = dtype.base, dtype.shape
    accepted: Any = (np.ndarray, np.generic)

    def encode(value: Any) -> memoryview:
        if not isinstance(value, accepted):
            raise TypeMismatch(f"expected a numpy array of {dtype}, not {type(value).__name__}; use np.asarray")
        if value.dtype != base:
            raise TypeMismatch(f"expected a numpy array of {base}, not of {value.dtype}; use .astype")
        array: np.ndarray[Any, Any] = np.asarray(value)
        if array.shape != shape if shape else array.ndim > 1:
            wanted = f"shape {shape}" if shape else "one dimension"
            raise ValueMismatch(f"expected an array of {wanted}, not of shape {array.shape}")
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data

    return encode


def _decoder(dtype: np.dtype[Any], name: str) -> Callable[[Lender], Any]:
    import numpy as np

    base, shape, size = dtype.base, dtype.shape, dtype.itemsize

    def decode(data: Lender) -> Any:
        memory = memoryview(data)
        if (len(memory) != size) if shape else (len(memory) % size):
            wanted = "" if shape else "a multiple of "
            raise ValueMismatch(f"{name}: payload of {len(memory)} bytes, expected {wanted}{size}")
        array = np.frombuffer(memory, base)
        if shape:
            array = array.reshape(shape)
        array.flags.writeable = False
        return array

    return decode


EXACT_KINDS = "biuSU"
"""Kinds of dtypes for which numpy would cut a value to make it fit."""


def numpy_maker(document: dict[str, Any]) -> tuple[MessageType, Callable[[Any], Any]]:
    """The type of a description, and what makes an array of it; that raises ValueMismatch."""
    dtype = dtype_from_document(document)
    kind = numpy_type(dtype)

    def make(plain: Any) -> Any:
        try:
            array = _array(plain, dtype.base)
            return array.reshape(dtype.shape) if dtype.names or dtype.base.names else array
        except (TypeError, ValueError, OverflowError, KeyError) as error:
            raise ValueMismatch(f"{kind.name}: no such array can be made: {error}") from error

    return kind, make


def _array(plain: Any, dtype: np.dtype[Any]) -> Any:
    import numpy as np

    base = dtype.base
    if base.names is None:
        array, given = np.array(plain, base), np.asarray(plain)
        if base.kind in EXACT_KINDS and not np.array_equal(array.astype(given.dtype), given):
            raise ValueError(f"{plain!r} does not fit {base}")
        return array
    rows = [_fields(row, base.names) for row in ([plain] if hasattr(plain, "keys") else plain)]
    array = np.zeros(len(rows), base)
    for index, name in enumerate(base.names):
        array[name] = _array([row[index] for row in rows], base[name])
    return array


def _fields(row: Any, names: tuple[str, ...]) -> list[Any]:
    """Returns the fields of a row in the order of `names`. The row has them by name, or is a list in this order, as
    fields within fields are printed. Raises ValueError for other fields."""
    named = hasattr(row, "keys")
    if (row.keys() != set(names)) if named else len(row) != len(names):
        raise ValueError(f"{row!r} has not the fields {', '.join(names)}")
    return [row[name] for name in names] if named else list(row)
