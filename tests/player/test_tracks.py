"""Which topics of a recording are played, and under which name."""

from __future__ import annotations

from pathlib import Path

import pytest

import rtmw
from tests.recordings import numbered

pytestmark = pytest.mark.usefixtures("domain")


def test_a_recorded_name_that_no_topic_of_the_bus_can_have_is_played_under_another_one_only(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["pump[1]", "river"], 2)
    with rtmw.Replay(path) as replay:
        assert replay.topics == ("river",)
        assert "remap" in replay.skipped["pump[1]"]
    with rtmw.Subscriber("pump/1") as pump, rtmw.Replay(path, remap={"pump[1]": "pump/1"}) as replay:
        assert replay.skipped == {}
        replay.run()
        assert pump.receive(1).value == bytes(8)
    with pytest.raises(rtmw.RtmwError, match=r"pump/\*: not a topic name"):
        rtmw.Replay(path, remap={"pump[1]": "pump/*"})
