"""The metadata of each message of a recording, as Arrow columns. Needs pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from rtmw.recording.times import UNSET_NS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.batch import Batch

_TIME: Final = pa.timestamp("us", tz="UTC")
MESSAGE_FIELDS: Final = {
    field.name: field
    for field in (
        pa.field("log_time", _TIME, True),
        pa.field("publish_time", _TIME, True),
        pa.field("sequence", pa.int64(), False),
        pa.field("priority", pa.int8(), False),
        pa.field("publisher", pa.int64(), False),
        pa.field("expires", _TIME, True),
        pa.field("log_time_ns", pa.int64(), True),
        pa.field("publish_time_ns", pa.int64(), True),
    )
}
"""Times to the microsecond, which every reader knows, and to the nanosecond as numbers; null: nobody set the time."""


def message_column(name: str, batch: Batch) -> pa.Array:
    """Returns one of these columns of a batch."""
    match name:
        case "log_time" | "publish_time":
            stamps = getattr(batch, name)
            return _times(stamps, _unset(stamps))
        case "log_time_ns" | "publish_time_ns":
            stamps = getattr(batch, name.removesuffix("_ns"))
            return pa.array(stamps, mask=_unset(stamps))
        case "expires":
            return _times(batch.expires, batch.expires == 0)
        case "sequence" | "publisher":
            numbers = np.require(getattr(batch, name), requirements="A")  # they may lie at any byte of a record
            return pa.array(numbers.view(np.int64))
        case "priority":
            return pa.array(batch.priority.astype(np.int8))
        case _:
            raise KeyError(name)


def _unset(stamps: NDArray[Any]) -> NDArray[Any] | None:
    """Returns which times nobody has set; None: all are set."""
    mask = stamps == UNSET_NS
    return mask if mask.any() else None


def _times(stamps: NDArray[Any], missing: NDArray[Any] | None = None) -> pa.Array:
    return pa.array(stamps // 1000, pa.int64(), mask=missing).cast(_TIME)
