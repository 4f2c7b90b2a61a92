"""What a replay leaves out, and what nobody could take."""

from __future__ import annotations

from pathlib import Path

import rtmw
from tests.player.test_replay import Speed, listener, values
from tests.recordings import numbered


def test_without_strict_a_damaged_chunk_is_left_out_and_named(domain: rtmw.Domain, tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 40, chunk_bytes=1)
    with rtmw.Recording(path) as recording:
        damaged = [recording.chunks[20], recording.chunks[39]]
    data = bytearray(path.read_bytes())
    for chunk in damaged:
        data[chunk.position + chunk.length - 1] ^= 1
    path.write_bytes(data)
    with listener("t") as taker, rtmw.Replay(path, rate=None, strict=False) as replay:
        replay.run()
        assert values(taker) == [number for number in range(40) if number not in (20, 39)]
        assert len(replay.left_out) == 2
        assert all("a.mcap" in left for left in replay.left_out)


# Proves G166.
def test_it_says_which_subscribers_are_of_another_type_and_how_much_nobody_could_take(
    domain: rtmw.Domain, tmp_path: Path
) -> None:
    path = numbered(tmp_path / "a.mcap", ["heard", "other", "nobody"], 30)
    with listener("heard"), listener("other", Speed), rtmw.Replay(path, rate=None) as replay:
        stats = replay.run()
        assert {topic: row.unheard for topic, row in stats.topics.items()} == {"heard": 0, "other": 10, "nobody": 10}
        assert stats.unheard == 20
        assert [*replay.refused] == ["other"]
        (reason,) = replay.refused["other"]
        assert reason.endswith("its type is plant.Speed, this one's bytes")
