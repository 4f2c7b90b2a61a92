"""How long does an urgent order take to be delivered while others flood its recipient?

From the moment when it is sent until its source has the receipt, one order each 25 ms: alone; beside eight agents that
send to the same recipient as fast as their connections take it, under rules that give the urgent ones a priority and
each of the others `max_orders`; and beside the same agents without such rules. The recipient confirms four orders at a
time. An order that has no receipt in the end counts with the time until then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench import disk, relays
from bench.cases import RTMW, Case, Figures
from bench.numbers import percentile, spread
from bench.relays import Line, connected
from bench.role import Role
from bench.stage import Part, Stage
from rtmw.relay import Frame

TITLE = "An urgent order in a flood, until its receipt: 99th of a hundred"
UNIT = "ms"
ROUNDS = 5
IDLE, CONTROLLED, UNCONTROLLED = "idle", "flood, with control", "flood, without control"
FLOODING = [f"F{number}" for number in range(8)]
URGENT, TO = "URG", "GATE"
CONTROL = f"""\
[[allow]]
peer = "agent:{URGENT}"
order = ["{TO}/*"]
priority = 7
[[allow]]
peer = "agent:F*"
order = ["{TO}/*"]
max_orders = 50
"""
NO_CONTROL = '[[allow]]\npeer = "agent:*"\norder = ["*/*"]\n'
BATCH = 64
APART_S = 0.025
END = "end"


def cases(quick: bool) -> Sequence[Case]:
    """`warm`: the burst that `max_orders` allows is over, then. `rest`: so long the last orders may take."""
    seconds = {"warm": 1.5, "seconds": 4.0 if quick else 8.0, "rest": 1.0}
    return [
        Case(IDLE, (RTMW,), seconds | {"rules": CONTROL, "flood": False}),
        Case(CONTROLLED, (RTMW,), seconds | {"rules": CONTROL, "flood": True}),
        Case(UNCONTROLLED, (RTMW,), seconds | {"rules": NO_CONTROL, "flood": True}),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    with disk.new_folder() as folder:
        more = "max_waiting = 1000000\n"  # else orders are refused, and fast
        with relays.serving(folder, (URGENT, TO, *FLOODING), case.options["rules"], more, "window = 4\n") as port:
            options = case.options | {"port": port}
            times = sorted(stage.play("relay_urgent", system, [Part("urgent", options), Part("flood", options)])[0])
    return {system: Figures(percentile(times, 0.99), spread(times))}


def urgent(role: Role) -> list[float]:
    """How long each took, in ms."""
    import uvloop

    role.hear()
    try:
        return uvloop.run(send(**{name: role.options[name] for name in ("port", "warm", "seconds", "rest")}))
    finally:
        role.tell(END)


async def send(port: int, warm: float, seconds: float, rest: float) -> list[float]:
    clock, open, times = time.perf_counter, dict[bytes, float](), list[float]()

    def answered(frame: Frame) -> None:
        if frame.body:
            raise RuntimeError(f"an urgent order has failed: {frame.body.decode()}")
        times.append(1000 * (clock() - open.pop(frame.answers[0])))

    line = await connected(port, URGENT, answered)
    await asyncio.sleep(warm)
    end = clock() + seconds
    while clock() < end:
        frame = line.order(TO)
        open[Frame.decode(frame).stamp] = clock()
        line.write(frame)
        await asyncio.sleep(APART_S)
    await asyncio.sleep(rest)
    return times + [1000 * (clock() - begun) for begun in open.values()]


def flood(role: Role) -> None:
    """The recipient, and those that flood it, until the urgent one has ended."""
    import uvloop

    async def both() -> None:
        port = role.options["port"]
        await connected(port, TO)
        lines = [await connected(port, name) for name in FLOODING if role.options["flood"]]
        going = [asyncio.create_task(keep_on(line)) for line in lines]
        role.tell("ready")
        await asyncio.to_thread(role.hear)
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)

    uvloop.run(both())


async def keep_on(line: Line) -> None:
    while True:
        await line.may_write.wait()
        line.write(b"".join(line.order(TO) for _ in range(BATCH)))
        await asyncio.sleep(0)
