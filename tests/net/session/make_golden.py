"""One short session between two nodes, as the bytes that each of them sent. `python -m tests.net.session.make_golden`
writes the files of golden/ anew; only a new version of the protocol may change them."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from rtmw.net.session import events as e
from rtmw.net.session import meetings as m
from rtmw.net.session.hello import Hello, Terms
from rtmw.net.session.meetings import Meetings

GOLDEN = Path(__file__).with_name("golden")
SESSION = 0x1122334455667788


def conversation() -> tuple[bytes, bytes]:
    """What the dialler, which has the smaller uuid, and the listener sent."""
    terms = Terms()
    nodes = [
        Meetings(Hello(UUID(int=1), 100, site=7, hops=3, capabilities=frozenset({"log"})), terms, lambda: SESSION),
        Meetings(Hello(UUID(int=2), 200), terms, lambda: 0),
    ]
    sent = [b"", b""]
    todo: list[tuple[int, m.Event]] = [
        *((1, event) for event in (m.Connected(1, False, "", True), m.RoomOn(1, 1 << 20))),
        *((0, event) for event in (m.Connected(1, True, "", True), m.RoomOn(1, 1 << 20))),
    ]

    def run(index: int, event: m.Event, now: float) -> None:
        for effect in nodes[index].step(event, now):
            if isinstance(effect, m.Send):
                sent[index] += effect.data
                todo.append((1 - index, m.Arrived(1, effect.data)))

    def run_to_rest(now: float) -> None:
        while todo:
            run(*todo.pop(0), now)

    run_to_rest(0.0)
    for index, event in (
        (0, e.Open("log orders", 5, 1 << 40)),
        (0, e.Write(1, memoryview(b"hello"))),
        (1, e.Accept(1, 9)),
        (1, e.Read(1, 5)),
        (1, e.Durable(1, (1 << 40) + 5)),
        (1, e.Write(1, memoryview(b"yes"))),
        (0, e.End(1)),
        (1, e.End(1)),
        (1, e.Finish(1)),
        (0, e.Read(1, 3)),
        (0, e.Finish(1)),
        (1, e.Open("given up", 0, 0)),
        (1, e.Reset(2, 300, "no more")),
        (0, e.Timer()),
        (0, e.Close(1, "done")),
    ):
        run(index, m.Ask(SESSION, event), 1.3)
        run_to_rest(1.3)
    return sent[0], sent[1]


if __name__ == "__main__":
    for name, data in zip(("dialler", "listener"), conversation(), strict=True):
        (GOLDEN / name).write_bytes(data)
