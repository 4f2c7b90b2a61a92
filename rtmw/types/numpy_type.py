"""numpy dtypes as messages: the payload is the array's memory, read back in place.

A plain dtype stands for a 1-D array of any length; a subarray dtype, such as `np.dtype((np.float32, (480, 640)))`,
for an array of exactly that shape. numpy is imported only when the given type is numpy's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from rtmw.errors import RegionDamaged, TypeMismatch, UnsupportedType, ValueMismatch
from rtmw.types.message_type import NAME_LIMIT, MessageType, make

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Buffer as Lender

_FIXED_KINDS = "biufcSUVmM"


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
    if 0 in shape:
        raise UnsupportedType(f"numpy dtype {dtype} holds nothing: its shape contains a 0")
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
        base = np.lib.format.descr_to_dtype(_tuples(document["dtype"]))
        shape = tuple(document["shape"])
        if not all(type(side) is int and side > 0 for side in shape):
            raise ValueError(f"shape {shape}")
        return np.dtype((base, shape)) if shape else base
    except Exception as error:  # numpy raises TypeError, ValueError, KeyError, SyntaxError on a bad dtype
        raise RegionDamaged(f"type description of {document.get('name')!r} holds no numpy dtype: {error}") from error


def _name(base: np.dtype[Any], shape: tuple[int, ...]) -> str:
    prefix = "numpy:" + (str(shape).replace(" ", "") if shape else "")
    text = base.str if base.names is None else "{" + ",".join(base.names) + "}"
    name = prefix + text
    while len(name.encode()) > NAME_LIMIT:
        name = name[:-5] + "...}"
    return name


def _tuples(descr: Any) -> Any:
    """JSON has lists only; numpy wants fields as tuples within a list."""
    return [_field(*entry) for entry in descr] if _is_list(descr) else descr


def _field(name: Any, dtype: Any, shape: Any = None) -> tuple[Any, ...]:
    titled = tuple(name) if _is_list(name) else name
    return (titled, _tuples(dtype)) if shape is None else (titled, _tuples(dtype), tuple(shape))


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _encoder(dtype: np.dtype[Any]) -> Callable[[Any], memoryview]:
    import numpy as np

    base, shape = dtype.base, dtype.shape
    accepted: Any = (np.ndarray, np.generic)

    def encode(value: Any) -> memoryview:
        if not isinstance(value, accepted):
            raise TypeMismatch(f"the topic carries numpy arrays of {dtype}, not {type(value).__name__}; use np.asarray")
        if value.dtype != base:
            raise TypeMismatch(f"the topic carries numpy arrays of {base}, not of {value.dtype}; use .astype")
        array: np.ndarray[Any, Any] = np.asarray(value)
        if array.shape != shape if shape else array.ndim > 1:
            wanted = f"shape {shape}" if shape else "one dimension"
            raise ValueMismatch(f"the topic carries arrays of {wanted}, not of shape {array.shape}")
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
