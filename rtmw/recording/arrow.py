"""What a recording says of each message, as Arrow columns. Needs pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.batch import Batch

_TIME: Final = pa.timestamp("us", tz="UTC")
METADATA: Final = {
    field.name: field
    for field in (
        pa.field("log_time", _TIME, False),
        pa.field("publish_time", _TIME, False),
        pa.field("sequence", pa.int64(), False),
        pa.field("priority", pa.int8(), False),
        pa.field("publisher", pa.int64(), False),
        pa.field("expires", _TIME, True),
        pa.field("log_time_ns", pa.int64(), False),
        pa.field("publish_time_ns", pa.int64(), False),
    )
}
"""Times to the microsecond, which every reader knows, and to the nanosecond as numbers."""


def metadata(name: str, batch: Batch) -> pa.Array:
    """One of these columns."""
    match name:
        case "log_time" | "publish_time":
            return _times(getattr(batch, name))
        case "log_time_ns" | "publish_time_ns":
            return pa.array(getattr(batch, name.removesuffix("_ns")))
        case "expires":
            return _times(batch.expires, batch.expires == 0)
        case "sequence" | "publisher":
            return pa.array(getattr(batch, name).view(np.int64))
        case "priority":
            return pa.array(batch.priority.astype(np.int8))
        case _:
            raise KeyError(name)


def _times(stamps: NDArray[Any], missing: NDArray[Any] | None = None) -> pa.Array:
    return pa.array(stamps // 1000, pa.int64(), mask=missing).cast(_TIME)
