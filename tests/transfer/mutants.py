"""Rules of transactions that are taken out one by one: each has to be found by worlds.

    python -m tests.transfer.mutants "the name of one"

runs random worlds in which one line of `rtmw/transfer` is another one. Status 1: it was found; 0: it was not.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import random
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Final, NamedTuple

WORLDS: Final = 40
STEPS: Final = 40


class Mutant(NamedTuple):
    module: str
    old: str
    new: str


MUTANTS: Final = {
    "a CLR names what it has undone as the next to be undone": Mutant(
        "machine", "row.undo_next, entry.next, what)", "row.undo_next, row.undo_next - 1, what)"
    ),
    "UndoNxtLSN stays where it was after a CLR": Mutant("state", "row.undo_next = record.undo_next", "pass"),
    "undoing follows prevLSN and forgets what has a CLR": Mutant(
        "state", "Undoable(what, item, self.undo_next)", "Undoable(what, item, self.last_lsn)"
    ),
    "no CLR is logged": Mutant(
        "machine",
        "        yield from append(state, Clr(row.txn, row.last_lsn, row.undo_next, entry.next, what))",
        "        yield from state.apply(1 << 62, Clr(row.txn, row.last_lsn, row.undo_next, entry.next, what))",
    ),
    "a rollback destroys its savepoint": Mutant(
        "machine", "else row.find(to).log_lsn\n", "else row.find(to).log_lsn - 1\n"
    ),
    "a rollback keeps later savepoints": Mutant(
        "state", "            row.destroy(record.undone)\n", "            pass\n"
    ),
    "a rollback undoes all": Mutant("machine", "else row.find(to).log_lsn\n", "else 0 * row.find(to).log_lsn\n"),
    "duplicate names mean the oldest": Mutant(
        "state",
        "in self.savepoints():\n            if wanted",
        "in list(self.savepoints())[::-1]:\n            if wanted",
    ),
    "a release keeps later savepoints": Mutant("state", "row.destroy(savepoint)", "row.save_list = row.save_list"),
    "sends are visible before COMMIT": Mutant(
        "state",
        "        row.add_undoable(lsn, Undone.ENQUEUE, lsn)\n",
        "        row.add_undoable(lsn, Undone.ENQUEUE, lsn)\n        self._show(lsn, item)\n",
    ),
    "COMMIT leaves what was taken": Mutant(
        "state",
        "                yield from self._end(item, TransferState.CONSUMED)",
        "                self._show(lsn, item)",
    ),
    "COMMIT is not logged": Mutant(
        "machine",
        "        yield from append(self.state, Commit(txn, row.last_lsn, row.items, request))",
        "        yield from self.state.apply(row.last_lsn + 1, Commit(txn, row.last_lsn, row.items, request))",
    ),
    "END comes before COMMIT": Mutant(
        "machine",
        "        yield from append(self.state, Commit(txn, row.last_lsn, row.items, request))",
        "        yield from append(self.state, End(txn, row.last_lsn))\n"
        "        yield from append(self.state, Commit(txn, row.last_lsn, row.items, request))",
    ),
    "an undone TAKE goes to the end of its queue": Mutant(
        "queues",
        "            heapq.heappush(self._list(life, item.record.header.priority), lsn)",
        "            self._list(life, item.record.header.priority).append(lsn)",
    ),
    "an undone TAKE is forgotten": Mutant(
        "state",
        "        elif record.what is Undone.TAKE:\n            self._show(lsn, item)\n",
        "        elif record.what is Undone.TAKE:\n            yield from self._end(item, None)\n",
    ),
    "an undone send stays": Mutant(
        "state", "            yield from self._end(item, None)\n        elif", "            item.txn = 0\n        elif"
    ),
    "losers are not undone at the restart": Mutant(
        "machine", "            yield from abort(state, row, AbortCause.RESTART, deliveries)", "            pass"
    ),
    "a checkpoint forgets open transactions": Mutant(
        "recovery",
        '    yield len(state.table).to_bytes(4, "little")\n    yield from map(_packed_row, state.table.values())',
        "    yield bytes(4)",
    ),
    "a checkpoint forgets where undoing is": Mutant(
        "recovery",
        "Transaction(txn, Phase(phase), last_lsn, undo_next)",
        "Transaction(txn, Phase(phase), last_lsn, last_lsn)",
    ),
    "deliveries are not counted": Mutant(
        "state", "        item.deliveries += 1\n        if row", "        item.deliveries += 0\n        if row"
    ),
    "a dead letter is only dead in memory": Mutant(
        "machine", "            what = Undone.TAKE_DEAD", "            state.items[entry.item].cause = 'dead'"
    ),
}


class Mutated(SourceFileLoader):
    """Loads a module of which one line is another."""

    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        source = self.get_data(self.path).decode()
        if source.count(self._mutant.old) != 1:
            raise SystemExit(f"{self.path} has {self._mutant.old!r} {source.count(self._mutant.old)} times")
        return compile(source.replace(self._mutant.old, self._mutant.new), self.path, "exec")


class Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant, package: str) -> None:
        self._mutant, self._package = mutant, package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != f"{self._package}.{self._mutant.module}":
            return None
        found = PathFinder.find_spec(fullname, path, target)
        assert found is not None
        assert found.origin is not None
        return importlib.util.spec_from_loader(fullname, Mutated(fullname, found.origin, self._mutant))


def live(seed: int) -> None:
    from tests.transfer.world import random_life

    random_life(random.Random(seed), STEPS).check_crashes()


def hunt(name: str, mutant: Mutant, live: Callable[[int], None], worlds: int, package: str = "rtmw.transfer") -> int:
    """`live` imports what it runs, so that it is the mutant."""
    sys.meta_path.insert(0, Finder(mutant, package))
    for seed in range(worlds):
        try:
            live(seed)
        except Exception as error:
            print(f"mutant {name}: found in world {seed}: {type(error).__name__}: {str(error)[:200]}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(hunt(sys.argv[1], MUTANTS[sys.argv[1]], live, WORLDS))
