"""Spark replays recorded topics: what was recorded is filtered, and flows on the bus again.

Needs `pip install 'rtmw[spark]'` and Java 17 or newer.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

from cyclonedds.idl import IdlStruct, types

import rtmw


@dataclass
class Speed(IdlStruct, typename="plant.Speed"):
    pump: types.int32
    rpm: types.float64


def record(folder: str) -> None:
    """A thousand messages of four pumps, on the bus and from there into a recording."""
    with rtmw.Publisher("pump/speed", Speed) as publisher, rtmw.Recorder("pump/*", folder):
        publisher.wait_for_subscribers(timeout=30)
        for number in range(1000):
            publisher.publish(Speed(number % 4, 1000.0 + number))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        record(folder)
        spark = rtmw.spark.session("local[1]")
        columns = ["topic", "log_time_ns", "sequence", "file", "pump", "rpm", "payload"]
        speeds = rtmw.spark.read(folder, topic="pump/speed", columns=columns)
        fast = speeds.where("pump = 1 and rpm >= 1500")
        with rtmw.Subscriber("pump/speed", Speed, depth=1000, reliability=rtmw.Reliability.RELIABLE) as subscriber:
            replayed = rtmw.spark.replay(fast, rate=0)
            heard = [sample.value for sample in subscriber.take_many(1000)]
        spark.stop()
    print(f"replayed {replayed.messages}, heard {len(heard)}, from {heard[0].rpm:.0f} to {heard[-1].rpm:.0f} rpm")


if __name__ == "__main__":
    main()
