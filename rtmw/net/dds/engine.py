"""The engine of a node (engine.h), open while the node runs."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from rtmw.domain import Domain
from rtmw.net.claim import NodeError
from rtmw.net.dds.library import Engine
from rtmw.net.settings import Settings
from rtmw.shm import beside, foreign, make_beside

_NO_ROOM: Final = (errno.ENOSPC, errno.ENOMEM, errno.EFBIG)
POOL_SHARE: Final = 8
"""The part of the pool that DDS may hold at a time of what is on its way."""


@contextmanager
def open_engine(domain: Domain, settings: Settings) -> Generator[Engine]:
    """Raises NodeError."""
    path = beside(domain.id, domain.region.nonce, "carried")
    try:
        make_beside(path, domain.id)
        engine = Engine(settings.domain, settings.max_rate, domain.pool // POOL_SHARE, path, settings.wire_domain)
    except OSError as error:
        why = "make room for 256 KiB there" if error.errno in _NO_ROOM else _in_the_way(path)
        raise NodeError(
            f"{path}, in which nodes leave to the next one how far they came, cannot be made: "
            f"{os.strerror(error.errno or 0)}; {why}"
        ) from error
    try:
        yield engine
    finally:
        engine.close()


def _in_the_way(path: str) -> str:
    return foreign(path) or "it belongs to a user that the domain is not open to; that user or root can remove it"
