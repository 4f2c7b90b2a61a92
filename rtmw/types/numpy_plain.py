"""numpy arrays from plain data, as JSON has it: lists of numbers, and of objects for a dtype with fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rtmw.errors import ValueMismatch
from rtmw.types.message_type import MessageType
from rtmw.types.numpy_type import dtype_from_document, numpy_type

if TYPE_CHECKING:
    import numpy as np

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
