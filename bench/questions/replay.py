"""How punctual is a replay? A thousand messages a second are recorded for a moment, and played at rate 1 to a
program that sleeps until each comes. The value is the 99th percentile of how much later than due the call that
publishes has returned, with the wake-up in it. `time.sleep`: the same messages, played by a loop in Python that sleeps.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.cases import RTMW, SLEEP, Case, Figures
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "Replay at rate 1: how late is the 99th of a hundred messages"
UNIT = "µs"
APART_S = 0.001
SIZE = 64
SILENCE_S = 10.0
PERCENTILES = (50.0, 99.0, 99.9)


def cases(quick: bool) -> Sequence[Case]:
    return [Case("1 kHz, 64 B", (RTMW, SLEEP), {"messages": 500 if quick else 1000})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    player = "replay" if system == RTMW else "by_hand"
    parts = [Part(name, case.options, cpu) for name, cpu in zip((player, "taker"), stage.processors, strict=True)]
    spread, lost = stage.play("replay", system, parts)
    return {system: Figures(spread["p99"], spread, f"{lost} lost" if lost else "")}


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


def replay(role: Role) -> dict[str, float]:
    """Percentiles in µs."""
    import rtmw

    role.pin()
    with recorded(role) as (run, _), rtmw.Domain(role.domain) as domain:
        renamed = {f"{role.name}live": f"{role.name}again"}
        with rtmw.Replay(run, remap=renamed, domain=domain) as playing:
            role.tell("recorded")
            role.hear()
            playing.wait_for_subscribers(timeout=10)
            late = playing.run().lateness
            role.tell("over")
        return {f"p{percent:g}": (late.percentile(percent) or 0.0) * 1e6 for percent in PERCENTILES}


def by_hand(role: Role) -> dict[str, float]:
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
            late = sorted(play(publisher.publish, payloads, due))
            role.tell("over")
        return {f"p{percent:g}": late[int((len(late) - 1) * percent / 100)] for percent in PERCENTILES}


def play(publish: Callable[[bytes], object], payloads: Sequence[bytes], due: Sequence[int]) -> list[float]:
    """How many µs late each was."""
    late: list[float] = []
    began = time.monotonic_ns() - due[0]
    for payload, at in zip(payloads, due, strict=True):
        time.sleep(max(0, began + at - time.monotonic_ns()) / 1e9)
        publish(payload)
        late.append((time.monotonic_ns() - began - at) / 1000)
    return late


def taker(role: Role) -> int:
    """How many did not come."""
    import rtmw

    role.hear()
    role.pin()
    wanted = role.options["messages"]
    with (
        rtmw.Domain(role.domain) as domain,
        rtmw.Subscriber(f"{role.name}again", domain=domain, depth=4096, spin=0.0) as subscriber,
    ):
        role.tell("there")
        seen = 0
        with suppress(TimeoutError):
            while seen < wanted:
                subscriber.receive(SILENCE_S)
                seen += 1
        role.hear()
        return wanted - seen
