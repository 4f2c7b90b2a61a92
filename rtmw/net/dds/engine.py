"""The engine of a node (engine.h), open while the node runs."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from rtmw.domain import Domain
from rtmw.net.claim import NodeError
from rtmw.net.dds.library import Engine
from rtmw.net.settings import Settings
from rtmw.shm import beside, make_beside

POOL_SHARE: Final = 8
"""The part of the pool that DDS may hold at a time of what is on its way."""


@contextmanager
def opened(domain: Domain, settings: Settings) -> Generator[Engine]:
    """Raises NodeError."""
    path = beside(domain.id, domain.region.nonce, "carried")
    try:
        make_beside(path, domain.id)
        engine = Engine(settings.domain, settings.max_rate, domain.pool // POOL_SHARE, path, settings.wire_domain)
    except OSError as error:
        raise NodeError(
            f"{path}, in which nodes leave to the next one how far they came, cannot be made: "
            f"{os.strerror(error.errno or 0)}; make room for 256 KiB there"
        ) from error
    try:
        yield engine
    finally:
        engine.close()
