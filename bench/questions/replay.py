"""How punctual is a replay? A thousand messages a second are recorded for a moment, and played at rate 1; a program
that polls on the other processor takes them. The value is the 99th percentile of how much later a message was taken
than the recording says, beside the most punctual one. `time.sleep`: the same messages, played by a loop in Python.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cases import RTMW, SLEEP, Case, Figures
from bench.role import Role
from bench.stage import Part, Stage

if TYPE_CHECKING:
    import rtmw

TITLE = "Replay at rate 1: how late is the 99th of a hundred messages"
UNIT = "µs"
APART_S = 0.001
SIZE = 64
SILENCE_NS = int(0.5e9)


def cases(quick: bool) -> Sequence[Case]:
    return [Case("1 kHz, 64 B", (RTMW, SLEEP), {"messages": 500 if quick else 1000})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    player = "replay" if system == RTMW else "by_hand"
    parts = [Part(name, case.options, cpu) for name, cpu in zip((player, "taker"), stage.processors, strict=True)]
    due, taken = stage.play("replay", system, parts)
    late = sorted(lateness(due, dict(taken)))
    spread = {f"p{percent:g}": late[min(len(late) - 1, int(len(late) * percent / 100))] for percent in (50, 99, 99.9)}
    lost = len(due) - len(taken)
    return {system: Figures(spread["p99"], spread, f"{lost} lost" if lost else "")}


def lateness(due: Sequence[int], taken: dict[int, int]) -> list[float]:
    """Microseconds behind the most punctual message, of those that came; the clocks differ by where they begin."""
    found = [(taken[number] - at) / 1000 for number, at in enumerate(due) if number in taken]
    least = min(found)
    return [late - least for late in found]


@contextmanager
def recorded(role: Role) -> Generator[tuple[Path, list[int]]]:
    """A recording of numbered messages, and their times."""
    import rtmw

    with tempfile.TemporaryDirectory(dir=role.place, prefix="rtmw-bench-") as folder:
        run = Path(folder, "run")
        with (
            rtmw.Domain(role.domain) as domain,
            rtmw.Publisher(f"{role.name}live", domain=domain, depth=4096) as publisher,
            rtmw.Recorder(f"{role.name}live", run, domain=domain, sync_every=None),
        ):
            for number in range(role.options["messages"]):
                publisher.publish(number.to_bytes(8, "little").ljust(SIZE))
                time.sleep(APART_S)
        with rtmw.Recording(next(run.glob("*.mcap"))) as recording:
            yield run, [message.log_time for message in recording.messages()]


def replay(role: Role) -> list[int]:
    import rtmw

    role.pin()
    with recorded(role) as (run, due), rtmw.Domain(role.domain) as domain:
        renamed = {f"{role.name}live": f"{role.name}again"}
        with rtmw.Replay(run, remap=renamed, domain=domain) as playing:
            role.tell("recorded")
            role.hear()
            playing.wait_for_subscribers(timeout=10)
            playing.run()
        role.hear()
        return due


def by_hand(role: Role) -> list[int]:
    """What a program does that replays without a player."""
    import rtmw

    role.pin()
    with recorded(role) as (run, due), rtmw.Domain(role.domain) as domain:
        with rtmw.Recording(next(run.glob("*.mcap"))) as recording:
            payloads = [message.payload for message in recording.messages()]
        with rtmw.Publisher(f"{role.name}again", domain=domain) as publisher:
            role.tell("recorded")
            role.hear()
            publisher.wait_for_subscribers(timeout=10)
            play(publisher.publish, payloads, due)
            role.hear()
        return due


def play(publish: Callable[[bytes], object], payloads: Sequence[bytes], due: Sequence[int]) -> None:
    began = time.monotonic_ns() - due[0]
    for payload, at in zip(payloads, due, strict=True):
        time.sleep(max(0, began + at - time.monotonic_ns()) / 1e9)
        publish(payload)


def taker(role: Role) -> list[tuple[int, int]]:
    """Number of each message, and when it was taken."""
    import rtmw

    role.hear()
    role.pin()
    with (
        rtmw.Domain(role.domain) as domain,
        rtmw.Subscriber(f"{role.name}again", domain=domain, depth=4096) as subscriber,
    ):
        role.tell("there")
        found = list(polled(subscriber))
        role.tell("over")
        return found


def polled(subscriber: rtmw.Subscriber[bytes]) -> Iterator[tuple[int, int]]:
    """Until nothing has come for a while."""
    last = time.monotonic_ns() + 20 * SILENCE_NS
    for _ in itertools.count():
        sample = subscriber.take()
        now = time.monotonic_ns()
        if sample is not None:
            last = now + SILENCE_NS
            yield int.from_bytes(bytes(sample)[:8], "little"), now
        elif now > last:
            return
