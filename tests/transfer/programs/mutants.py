"""Rules of the queues between programs and core that are taken out one by one: each has to be found.

    python -m tests.transfer.programs.mutants "the name of one"

lets a sender and an inbox go on while a core dies behind one batch of records after the other; program and core run
without the rule. Status 1: it was found; 0: it was not.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

from tests.transfer.mutants import Mutant, hunt

FIRST: Final = 10
"""The first batches are those of the start, and of a send alone."""
WORLDS: Final = 20
SENDS: Final = 6
PATIENCE: Final = 8.0
LIMIT_S: Final = 25
"""Of one world; then something waits for ever."""

MUTANTS: Final = {
    "programs are told before it is durable": Mutant(
        "core.process", "outbox.put(frame, self._syncing.logged if logged else 0)", "outbox.put(frame, 0)"
    ),
    "a send that is asked for again is done again": Mutant(
        "machine",
        "        if event.request is not None and event.request.number and event.request in self.state.requests:\n",
        "        if event.request is not None and event.request.number < 0:\n",
    ),
    "a COMMIT that is asked for again is not known": Mutant(
        "core.service",
        "is_done = isinstance(frame.message, messages.Commit) and Request(frame.life, frame.number) in known",
        "is_done = False",
    ),
    "what was settled before the crash is refused": Mutant(
        "core.inboxes", "if item in refused and item in self._machines.of(item).state.items", "if item in refused"
    ),
    "what the core had taken and not handed over stays taken": Mutant(
        "core.service", "if is_taken and item.lsn not in held:", "if is_taken and item.lsn in held:"
    ),
    "a program does not ask the next core again": Mutant(
        "client.line",
        "            elif not pending.is_chain:\n                self.put(pending, pending.message)",
        "            elif not pending.is_chain:\n                pass",
    ),
    "an inbox does not say what it holds": Mutant(
        "client.inbox", "tuple(self._held)", "()"
    ),
}  # fmt: skip


def live(name: str, seed: int) -> None:
    """One world: the core dies behind a batch of records, by turns when that is durable and before."""
    from tests.conftest import free_number
    from tests.transfer.core_process import CoreProcess
    from tests.transfer.programs import test_deaths

    test_deaths.PATIENCE = PATIENCE
    number = free_number()
    os.environ["RTMW_DOMAIN"] = str(number)
    import rtmw

    with tempfile.TemporaryDirectory() as folder, rtmw.Domain(number, pool="8M"):
        core = CoreProcess(number, Path(folder) / "transfers")
        when = ("durable", "lost")[seed % 2]
        core.start("tests.transfer.programs.mutant_core", name, str((FIRST + seed) // 2 + 2), when)

        core.wait_until_ready()
        over = threading.Event()

        def follow() -> None:
            core.process.wait()
            if not over.is_set():
                core.close_pipes()
                core.start("tests.transfer.programs.mutant_core", name, "0", "never")

        following = threading.Thread(target=follow, daemon=True)
        following.start()
        try:
            sent, consumed = test_deaths.work(core, SENDS)
            assert set(consumed) == set(sent), f"sent {sorted(sent)}, consumed {sorted(consumed)}"
            assert set(consumed.values()) == {1}, f"consumed {consumed}"
        finally:
            over.set()
            core.process.kill()
            following.join()
            core.end()
            rtmw.Domain.unlink(number)


def main(name: str, worlds: int) -> int:
    def give_up(*_: object) -> None:
        print(f"mutant {name}: found: it waits for ever", flush=True)
        os._exit(1)

    def one(seed: int) -> None:
        signal.alarm(LIMIT_S)
        live(name, seed)
        signal.alarm(0)

    signal.signal(signal.SIGALRM, give_up)
    if name:
        return hunt(name, MUTANTS[name], one, worlds)
    for seed in range(worlds):
        one(seed)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else WORLDS))
