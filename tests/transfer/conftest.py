from __future__ import annotations

import pytest

from rtmw.transfer.events import ReceiverJoined
from rtmw.transfer.limits import Limits
from tests.transfer.memory import ME, Core


@pytest.fixture
def core() -> Core:
    """With narrow limits, and a receiver of the service `ingest`."""
    core = Core(
        limits=Limits(
            deliveries=2, transaction_records=4, transaction_bytes=100, transactions=2, parked=50, transaction_age=10
        )
    )
    core.step(ReceiverJoined("ingest", ME))
    return core
