"""How long does a file take from node to node, durably?

rtmw: from the call of `send` until the receiver has the letter; its file is visible and on the disk then. rsync: from
the start of its command to its end, with --fsync. Both sides are on this machine and on one disk, servers run already,
and the source lies in the page cache.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import rtmw
from bench import disk, rsync
from bench.cases import RTMW, Case, Figures
from bench.certificates import node_keys
from bench.letters import serving_two
from bench.role import Role
from bench.rsync import DAEMON, SSH
from bench.stage import Part, Stage, environment

TITLE = "A file from node to node"
UNIT = "MiB/s"
ROUNDS = 3
TCP, TLS = "TCP", "TLS"
MIB = 1 << 20
BLOCK = 16 * MIB
LIMIT = 120.0


def cases(quick: bool) -> Sequence[Case]:
    size = {"mib": 128 if quick else 1024}
    return [Case(TCP, (RTMW, DAEMON), size | {"tls": False}), Case(TLS, (RTMW, SSH), size | {"tls": True})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    with disk.new_folder() as folder:
        options = case.options | {"folder": str(folder)}
        seconds = stage.play("transfer_file", system, [Part("carry", options)], LIMIT)[0]
    return {system: Figures(case.options["mib"] / seconds)}


def carry(role: Role) -> float:
    """Seconds."""
    folder = Path(role.options["folder"])
    source = written(folder / "source", role.options["mib"])
    if role.peer == RTMW:
        return by_node(role, folder, source)
    if role.peer == DAEMON:
        with rsync.daemon(folder) as there:
            return rsync.took([str(source), there])
    with rsync.over_ssh(folder) as (shell, there):
        return rsync.took([str(source), there], "-e", shell)


def written(path: Path, mib: int) -> Path:
    """A file of random bytes, on the disk, so that nothing of it is written while it is sent."""
    block = os.urandom(BLOCK)
    with path.open("wb") as file:
        for _ in range(mib * MIB // BLOCK):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return path


def by_node(role: Role, folder: Path, source: Path) -> float:
    keys = node_keys(tuple(environment().items())) if role.options["tls"] else None
    (folder / "arrived").mkdir()
    with (
        serving_two(role.domain, folder, keys) as two,
        rtmw.Inbox("files", folder=folder / "arrived", domain=two.there) as inbox,
        rtmw.Sender("bench", domain=two.here) as sender,
    ):
        sender.send("files@there", b"the session is there", wait=rtmw.Level.SENT)
        taken(inbox).consume()
        begin = time.perf_counter()
        sender.send("files@there", rtmw.File(source), delivery=rtmw.Delivery.LOG, wait=rtmw.Level.NONE)
        with taken(inbox) as letter:
            seconds = time.perf_counter() - begin
        assert letter.files[0].stat().st_size == source.stat().st_size
    return seconds


def taken(inbox: rtmw.Inbox) -> rtmw.Letter:
    letter = inbox.take(LIMIT)
    assert letter is not None, "nothing has come"
    return letter
