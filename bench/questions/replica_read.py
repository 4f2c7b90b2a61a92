"""How fast is a replicated log read over a connection, and how fast does a slave that was away catch up?

Three members hold records of 200 bytes, which lie in the page cache. A program reads all of them: in batches
(`read_batches`: the bytes of all, and where each begins), and with an object for each; beside the latter a program of
the master's host reads the same folder. Then a slave is killed, the log grows by as much, and the slave starts again:
the figure is the bytes that it shows to readers over the time from the first of them on.

The plain copy sends as many bytes of a file over a stream of such a session, in pieces as large, to a program that
drops them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import rtmw
from bench import disk
from bench.cases import RTMW, Case, Figures
from bench.clusters import Cluster, replicated
from bench.log_peers.server import free_port
from bench.questions.log_read import PASSES, speed, timed
from bench.role import Role
from bench.stage import Part, Stage
from rtmw.net.session import Carrier, Session

TITLE = "A replicated log over a connection"
UNIT = "GiB/s"
ROUNDS = 5
COPY: Final = "plain copy, same session"
LOCAL: Final = "rtmw, local log"
RECORD: Final = bytes(range(200))
BATCH: Final = 2000
"""Records that are appended at once."""
PIECE: Final = 256 << 10
LOOK_AGAIN_S: Final = 0.001
LIMIT_S: Final = 60.0


def cases(quick: bool) -> Sequence[Case]:
    size = {"size": (16 if quick else 128) << 20}
    return [
        Case("read_batches", (RTMW, COPY), {**size, "part": "reads_batches"}),
        Case("read", (RTMW, LOCAL), {**size, "part": "reads"}),
        Case("a slave catches up", (RTMW, COPY), size),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    with disk.new_folder() as folder:
        if system == COPY:
            options = case.options | {"port": free_port(), "file": str(folder / "file")}
            parts = [Part("takes", options), Part("gives", options)]
            return {system: Figures(stage.play("replica_read", system, parts)[0])}
        with replicated.serving(folder) as cluster:
            if "part" not in case.options:
                return {system: Figures(caught_up(folder, cluster, case.options["size"]))}
            fill(cluster.places, case.options["size"])
            local = str(folder / replicated.NODES[0] / "logs" / replicated.LOG) if system == LOCAL else ""
            part = Part(case.options["part"], {"places": cluster.places, "local": local})
            return {system: Figures(stage.play("replica_read", system, [part])[0])}


def fill(places: list[str], size: int) -> int:
    """The log grows by so many bytes, or some more; its end."""
    with rtmw.Log.connect(replicated.LOG, bytes, nodes=places) as log:
        end = log.end + size
        while log.append_many([RECORD] * BATCH)[-1].position < end:
            pass
        return log.end


def reads_batches(role: Role) -> float:
    """GiB a second of all records."""
    return passed(role, lambda log: sum(int(batch.offsets[-1]) for batch in log.read_batches()))


def reads(role: Role) -> float:
    return passed(role, lambda log: sum(len(record.data) for record in log.read()))


def passed(role: Role, read: Callable[[rtmw.Log[bytes]], int]) -> float:
    local, places = role.options["local"], role.options["places"]
    with rtmw.Log(local, create=False) if local else rtmw.Log.connect(replicated.LOG, bytes, nodes=places) as log:
        size = log.end
        return speed(size, timed(lambda: read(log)))


def caught_up(folder: Path, cluster: Cluster, size: int) -> float:
    """GiB a second of a slave that was away while the log grew by so much."""
    leader = cluster.leader()
    name = next(name for name, pid in cluster.pids.items() if pid != leader)
    port = int(cluster.places[replicated.NODES.index(name)].rpartition(":")[2])
    os.kill(cluster.pids[name], signal.SIGKILL)
    end = fill(cluster.places, size)
    with (
        replicated.node(folder, name, port),
        rtmw.Log(folder / name / "logs" / replicated.LOG, create=False) as log,
    ):
        first = at = log.end
        began, until = time.perf_counter_ns(), time.monotonic() + LIMIT_S
        while at < end:
            if time.monotonic() > until:
                raise RuntimeError(f"the slave is at {at} of {end} after {LIMIT_S:g} s")
            time.sleep(LOOK_AGAIN_S)
            at = log.end
            if at == first:  # it does not speak with its master yet
                began = time.perf_counter_ns()
        return speed(end - first, [time.perf_counter_ns() - began])


def takes(role: Role) -> float:
    """GiB a second of the plain copy."""
    import uvloop

    return uvloop.run(_take(role.options["port"], role.options["size"]))


async def _take(port: int, size: int) -> float:
    times = list[float]()
    async with Carrier(uuid4()) as carrier:
        session = await connected(carrier, port)
        for _ in range(PASSES):
            began, left = time.perf_counter_ns(), size
            stream = session.open("copy")
            while left:
                left -= sum(map(len, await stream.read_parts()))
            times.append(time.perf_counter_ns() - began)
            stream.reset()
    return speed(size, times)


async def connected(carrier: Carrier, port: int) -> Session:
    """As soon as the other part listens."""
    while True:
        try:
            return await carrier.connect("127.0.0.1", port)
        except rtmw.SessionError:
            await asyncio.sleep(LOOK_AGAIN_S)


def gives(role: Role) -> None:
    """Each stream gets the whole file, until the session ends."""
    import uvloop

    file = Path(role.options["file"])
    file.write_bytes(os.urandom(PIECE) * (role.options["size"] // PIECE))
    uvloop.run(_give(file, role.options["port"]))


async def _give(path: Path, port: int) -> None:
    async with Carrier(uuid4()) as carrier:
        await carrier.listen("127.0.0.1", port)
        session = await anext(carrier)
        async for stream in session:
            stream.accept()
            with suppress(rtmw.SessionError), path.open("rb", buffering=0) as file:
                while piece := file.read(PIECE):
                    await stream.write(piece)
