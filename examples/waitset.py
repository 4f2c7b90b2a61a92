"""Wait for whichever of several topics has something."""

from __future__ import annotations

import threading
import time

import rtmw

TOPICS = ("wait/temperature", "wait/pressure", "wait/stop")


def publish() -> None:
    """Four messages on three topics, the last one says stop."""
    for topic, text in zip((*TOPICS[:2], TOPICS[0], TOPICS[2]), (b"21.5", b"1013", b"21.6", b"now"), strict=True):
        with rtmw.Publisher(topic) as publisher:
            time.sleep(0.05)
            publisher.publish(text)


subscribers = [rtmw.Subscriber(topic) for topic in TOPICS]
waiting = rtmw.WaitSet(*subscribers)
threading.Thread(target=publish).start()
stopped = False
while not stopped:
    for subscriber in waiting.wait(timeout=5):
        for sample in subscriber.take_many(10):
            print(sample.topic, sample.value.decode())
            stopped = stopped or sample.topic == "wait/stop"
for subscriber in subscribers:
    subscriber.close()
