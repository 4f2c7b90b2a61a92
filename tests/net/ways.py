"""What is promised between two nodes holds whichever way a topic takes: tests of it run over DDS and over a link."""

from __future__ import annotations

import pytest

DDS, LINK = "DDS", "link"
BOTH_WAYS = pytest.mark.parametrize("hosts", [DDS, LINK], indirect=True)
"""For tests that have `hosts` or `pair`."""
