"""What each setting does to five messages, and where the counters tell of it."""

from __future__ import annotations

import time

import rtmw


def numbers(subscriber: rtmw.Subscriber[bytes]) -> str:
    """The messages that a subscriber gets now."""
    return " ".join(sample.value.decode() for sample in subscriber.take_many(10))


def priority() -> None:
    """The highest band comes first, whatever was published first."""
    with rtmw.Subscriber("qos/priority") as subscriber, rtmw.Publisher("qos/priority") as publisher:
        for number in range(5):
            publisher.publish(b"%d" % number, priority=7 if number == 3 else 0)
        print("priority:    ", numbers(subscriber))


def lifetime() -> None:
    """A message that nobody took in time is not delivered any more."""
    with rtmw.Subscriber("qos/lifetime") as subscriber, rtmw.Publisher("qos/lifetime") as publisher:
        for number in range(5):
            publisher.publish(b"%d" % number, lifetime=0.05 if number < 3 else None)
        time.sleep(0.1)
        print("lifetime:    ", numbers(subscriber), "| expired", subscriber.stats().expired)


def min_interval() -> None:
    """One message, and then none until the interval has passed."""
    with (
        rtmw.Subscriber("qos/interval", min_interval=0.25) as subscriber,
        rtmw.Publisher("qos/interval") as publisher,
    ):
        seen: list[str] = []
        for number in range(5):
            publisher.publish(b"%d" % number)
            seen.append(numbers(subscriber))
            time.sleep(0.1)
        print("min_interval:", " ".join(filter(None, seen)), "| thinned", subscriber.stats().thinned)


def deadline() -> None:
    """Silence is news."""
    with rtmw.Subscriber("qos/deadline", deadline=0.1) as subscriber, rtmw.Publisher("qos/deadline") as publisher:
        publisher.publish(b"0")
        try:
            while True:
                subscriber.receive(timeout=5)
        except rtmw.DeadlineMissed:
            print("deadline:     missed", subscriber.stats().deadlines_missed)


def reliability() -> None:
    """A queue of three and nobody who reads: TIMELY lets the oldest go, RELIABLE refuses the newest."""
    for kind in (rtmw.Reliability.TIMELY, rtmw.Reliability.RELIABLE):
        topic = f"qos/{kind.name.lower()}"
        with (
            rtmw.Subscriber(topic, reliability=kind, depth=3) as subscriber,
            rtmw.Publisher(topic, reliability=kind, depth=3, max_blocking=0.01) as publisher,
        ):
            accepted = sum(publisher.publish(b"%d" % number) for number in range(5))
            print(f"{kind.name + ':':13}", numbers(subscriber), f"| accepted {accepted} of 5, missed", end=" ")
            print(subscriber.stats().missed)


priority()
lifetime()
min_interval()
deadline()
reliability()
