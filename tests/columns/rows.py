"""Payloads one behind the other, as a chunk has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rtmw.columns.rows import Rows


def rows_of(payloads: Sequence[bytes]) -> Rows:
    size = np.array([len(payload) for payload in payloads], np.int64)
    return Rows(b"".join(payloads), np.cumsum(size) - size, size)
