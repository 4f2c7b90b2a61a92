"""The rules of replication, taken out one by one: each has to be found by worlds.

    python -m tests.replica.mutants "1: an id is looked for"

runs worlds in which one line of `rtmw/replica/protocol.py` is another one. Status 1: it was found; 0: it was not.
"""

from __future__ import annotations

import sys
from typing import Final

from tests.transfer.mutants import Mutant, hunt

WORLDS: Final = 4000


def rule(old: str, new: str) -> Mutant:
    return Mutant("protocol", old, new)


MUTANTS: Final = {
    "1: an id is looked for before its batch is appended": rule(
        "found = self.wal.find(event.id, Kind.DATA, event.data)\n", "found = None\n"
    ),
    "2: after an unknown outcome the store is read again": rule(
        "            self._version = 0\n            if event.outcome is Outcome.UNKNOWN",
        "            self._version, self.control = self._version + 1, control\n"
        "            if event.outcome is Outcome.UNKNOWN",
    ),
    "3: a slave promises an epoch before it follows": rule(
        "        if beat.epoch > self.marks.promise:\n", "        if beat.epoch < 0:\n"
    ),
    "3: a slave cuts to the end of the largest common epoch": rule(
        "cut = w.common_end(mine, beat.table) if mine else self.wal.end", "cut = min(self.wal.end, beat.end)"
    ),
    "4: an acknowledgement is of what is synced": rule(
        "durable, end = (self.wal.durable, self.wal.end) if self.epoch else (0, 0)", "durable = end = self.wal.end"
    ),
    "5: all of the in-sync set acknowledge": rule(
        "acked = min([self.wal.durable, *(self._peer(name).acked for name in needed)])",
        "acked = max([0, *(self._peer(name).acked for name in needed)])",
    ),
    "5: a slice continues the cache or the checkpoint": rule(
        "start, settings = control.cached, control.settings",
        "start, settings = self.wal.whole(control.cached, 60), control.settings",
    ),
    "6: a candidate cuts what differs from the cache": rule(
        "for same, end in sames if same < end)", "for same, end in sames if same < 0)"
    ),
    "6: a candidate appends what the cache has": rule(
        "                if rest and not self.wal.append_raw(rest):",
        "                if not rest and not self.wal.append_raw(rest):",
    ),
    "6: only a member of the in-sync set may stand": rule(
        "        if control.in_sync.get(self.me) != self.marks.incarnation:\n",
        "        if self.me not in control.members:\n",
    ),
    "7: a larger promise makes a master switch again": rule(
        "        if ack.promise > self.epoch:\n", "        if ack.promise > self.epoch + 99:\n"
    ),
    "8: a new member has acknowledged what a master must have": rule(
        "least = max(self.commit, self.start, control.checkpoint)", "least = 0"
    ),
    "9: the in-sync set stays at min_insync": rule(
        "(control.in_sync if len(control.in_sync) > control.settings.min_insync else ())", "control.in_sync"
    ),
    "9: who lags leaves": rule(
        "            if name in may_leave and (why := self._lags(name, control)):\n",
        "            if name not in self.peers and (why := self._lags(name, control)):\n",
    ),
    "10: the checkpoint is the minimum over the in-sync set": rule(
        "checkpoint = min([self.wal.durable, *others])", "checkpoint = self.wal.durable"
    ),
    "10: the cache is trimmed at the checkpoint": rule(
        "if one.end > checkpoint)", "if one.end > self.wal.durable)"
    ),
    "11: what is found is waited for": rule(
        '            self._wait(event.ticket, found.start, found.end, reply)\n',
        '            self._answer(event.ticket, reply, found.start)\n',
    ),
    "11: a fence says that it never comes": rule(
        '            self._put(event, Kind.FENCE, b"")\n',
        '            self._answer(event.ticket, Reply.ABSENT)\n',
    ),
    "11: an id below the window is neither appended nor fenced": rule(
        "        elif event.since < self.wal.floor:\n", "        elif event.since < 0:\n"
    ),
    "12: the store is asked before a fresh reader is answered": rule(
        "        self._fresh.append((event.ticket, self._number))\n",
        "        self._answer(event.ticket, Reply.DONE, self.commit)\n",
    ),
    "12: a fresh reader waits for a commit in this epoch": rule(
        "return self.commit >= self.start", "return True"
    ),
    "12: a slave shows what is committed": rule(
        "commit := min(self._final, self.wal.durable)", "commit := self.wal.durable"
    ),
    "13: a node that lost a tail is another one": rule(
        "incarnation=self.marks.incarnation + 1, checkpoint=0), then)", "checkpoint=0), then)"
    ),
}  # fmt: skip


def live(seed: int) -> None:
    from tests.replica.world import World

    World(seed).run()


if __name__ == "__main__":
    sys.exit(hunt(sys.argv[1], MUTANTS[sys.argv[1]], live, WORLDS, "rtmw.replica"))
