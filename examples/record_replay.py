"""What flows is recorded, and flows again: ten times as fast, under another name, to whoever listens then."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import rtmw

with tempfile.TemporaryDirectory() as folder:
    run = Path(folder, "run")
    with rtmw.Publisher("pump/speed", history=1) as publisher, rtmw.Recorder("pump/speed", run):
        for number in range(5):
            publisher.publish(f"speed {number}".encode())
            time.sleep(0.05)

    with rtmw.Recording(next(run.glob("*.mcap"))) as recording:
        print(f"{recording.message_count} messages on {', '.join(recording.topics())}")

    with (
        rtmw.Subscriber("pump/again") as subscriber,
        rtmw.Replay(run, rate=10.0, remap={"pump/speed": "pump/again"}) as replay,
    ):
        stats = replay.run()
        print(f"{stats.published} published again")
        print(", ".join(bytes(sample).decode() for sample in iter(subscriber.take, None)))
        replay.seek(replay.duration + 1.0)  # the last one was kept for late subscribers, and still holds
        replay.run()
        print(bytes(subscriber.receive(10.0)).decode())
