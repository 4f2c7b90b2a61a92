"""What comes from another host is recorded as what it is."""

from __future__ import annotations

from pathlib import Path

import rtmw
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.recorder.files import messages_of
from topics.river import Quality, Reading


def test_messages_of_another_host_are_recorded_with_who_sent_them_and_when(
    pair: tuple[Host, Host], tmp_path: Path
) -> None:
    here, there = pair
    with (
        rtmw.Recorder("river/a", tmp_path / "run", domain=there.domain) as recorder,
        rtmw.Publisher("river/a", Reading, domain=here.domain, priority=3) as publisher,
    ):
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        identity = publisher.identity
        for i in range(50):
            publisher.publish(Reading(f"A{i}", "pH", 7.4, Quality.GOOD, i))
        wait_until(lambda: recorder.stats().messages == 50, "fifty messages are recorded")
    found = messages_of(recorder.paths)
    with rtmw.Recording(recorder.paths[0]) as recording:
        type = recording.message_type(found[0].channel)
    assert type is not None
    assert type.decode is not None
    assert [type.decode(message.payload).station for message in found] == [f"A{i}" for i in range(50)]
    assert {(message.publisher, message.priority) for message in found} == {(identity, 3)}
