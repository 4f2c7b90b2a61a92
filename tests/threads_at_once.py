"""Threads use the same endpoints, samples and loans at once, and close them: `python threads_at_once.py DOMAIN ROUNDS`.

Uses rtmw and the standard library alone, so that any Python runs it. Prints whether that has a GIL afterwards, and what
does not balance.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import rtmw
from rtmw import observe

PATIENCE = 60.0
CALLS = 200
"""Of one thread, before it closes what the others use."""
OVER = (rtmw.ClosedError, ValueError, BufferError, TimeoutError)
"""Of what is closed, was released, or still has views."""


class Round:
    """A publisher, a subscriber, and what threads do with them until they are closed."""

    def __init__(self, domain: rtmw.Domain) -> None:
        self.publisher = rtmw.Publisher("race", domain=domain)
        self.subscriber = rtmw.Subscriber("race", domain=domain)
        self.values = [b"x" * 200] * 4
        self.publisher.publish(b"first")
        self.sample = self.subscriber.receive(PATIENCE)
        self.loan = self.publisher.loan(300)

    def publish(self) -> None:
        self.publisher.publish(b"x")

    def publish_a_list_that_changes(self) -> None:
        self.values.append(bytes(150))
        self.publisher.publish_many(self.values)
        del self.values[2:]

    def write(self) -> None:
        """Two threads have the same loan."""
        loan = self.loan = self.publisher.loan(300)
        memoryview(loan)[:1] = b"x"
        self.loan.publish()
        loan.drop()

    def take(self) -> None:
        for sample in self.subscriber.take_many(3):
            self.sample = sample
            self.share()

    def wait(self) -> None:
        rtmw.WaitSet(self.subscriber).wait(0.0)
        self.sample = self.subscriber.receive(0.0)

    def look(self) -> None:
        assert self.publisher.stats().published
        assert self.subscriber.stats().received
        assert self.publisher.identity != self.subscriber.identity

    def share(self) -> None:
        """Several threads have the same sample."""
        sample = self.sample
        assert bytes(sample.data) == sample.value
        sample.release()

    def share_and_close(self) -> None:
        for _ in range(CALLS):
            with suppress(*OVER):
                self.share()
        self.subscriber.close()
        self.publisher.close()

    def repeat(self, call: Callable[[], None]) -> None:
        while not self.publisher.closed:
            with suppress(*OVER):
                call()

    def run(self) -> None:
        """Raises the first error of a thread that is none of OVER."""
        calls = [self.publish, self.publish, self.publish_a_list_that_changes, self.write, self.write]
        calls += [self.take, self.take, self.wait, self.look, self.share]
        with ThreadPoolExecutor(len(calls) + 2) as pool:
            running = [pool.submit(self.repeat, call) for call in calls]
            running += [pool.submit(self.share_and_close) for _ in range(2)]
        for one in running:
            one.result()


def main(number: int, rounds: int) -> None:
    with rtmw.Domain(number, pool="8M") as domain:
        for _ in range(rounds):
            Round(domain).run()
        problems = observe.examine(domain, fix=True).problems
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(json.dumps({"gil": has_gil, "problems": problems}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
