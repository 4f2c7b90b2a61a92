"""A short file over a cable that is pulled; `make torture-transfers` takes one of 1 GiB. See transfers/."""

from __future__ import annotations

import pytest

from tests.torture.transfers.pulls import pull
from tests.transfer.between.pair import MIB


@pytest.mark.parametrize("tls", [True, False])
# Proves T7.
def test_t7_a_file_over_a_cable_that_is_pulled_comes_whole_and_once_and_little_is_carried_again(tls: bool) -> None:
    assert pull(48 * MIB, 3, tls=tls) > 0
