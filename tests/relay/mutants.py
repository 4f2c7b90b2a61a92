"""Rules of the relay that are taken out one by one: each has to be found by worlds.

    python -m tests.relay.mutants "the name of one"

runs worlds in which one line of `rtmw/relay` is another one. Status 1: it was found; 0: it was not.
"""

from __future__ import annotations

import sys
from typing import Final

from tests.transfer.mutants import Mutant, hunt

WORLDS: Final = 400

MUTANTS: Final = {
    "an order that comes again is known": Mutant(
        "machine",
        'known = self.state.known.get(Id(agent.name, frame.stamp, digest if by_content else b""))',
        "known = None",
    ),
    "an order that comes again gets its answer again": Mutant(
        "machine",
        "            self._pace(agent)\n            self._answer(known)\n",
        "            self._pace(agent)\n",
    ),
    "content tells orders of one stamp apart": Mutant("machine", 'digest if by_content else b""', 'b""'),
    "the rules are asked": Mutant("machine", "why = judged.why or self._hindrance(", "why = self._hindrance("),
    "what was sent is not called undelivered": Mutant("machine", "r.UNCONFIRMED if leg.tries else unsent", "unsent"),
    "an order ends after N2 tries": Mutant("machine", "if leg.attempt > relay.n2:", "if leg.attempt > 99:"),
    "one order of a stream is sent at a time": Mutant(
        "machine",
        "                self._send(first[0])\n",
        "                for leg in list(first)[:2]:\n                    self._send(leg)\n",
    ),
    "behind its end nothing of an order is sent": Mutant(
        "machine", "return order is not None and not order.legs[recipient].end", "return True"
    ),
    "a source is told when all have an end": Mutant("machine", "elif not order.is_open:", "elif True:"),
    "who has not confirmed is named": Mutant("machine", "for leg in order.failed)", "for leg in [])"),
    "what is kept is sent when its recipient is back": Mutant(
        "machine", "        self._make_all_ready(agent)\n", "        pass\n"
    ),
    "after a crash each open order is tried anew": Mutant(
        "machine",
        "                    self._enter(leg, max(1, min(tries, self.policy.relay.n2 + 1)))\n",
        "                    pass\n",
    ),
    "a try is on record before it leaves": Mutant("state", "            leg.tries = row.tries\n", "            pass\n"),
    "an order that has ended leaves its line": Mutant("state", "        self.queues[leg.recipient].remove(leg)\n", ""),
    "a late receipt corrects what was said": Mutant("state", ".end = r.DELIVERED", ".cause = row.cause"),
    "nothing of what is held is sent": Mutant(
        "machine", "        if self.state.is_held(leg.recipient, leg.order.stream):\n            return False\n", ""
    ),
    "what was on its way when it was held is not sent again": Mutant(
        "machine",
        "                self._over(leg)\n                self.changed",
        "                self._make_ready(leg)\n                self.changed",
    ),
    "what is released goes on": Mutant(
        "machine",
        "        for recipient in list(self.state.queues):\n            self._make_all_ready(recipient)\n",
        "",
    ),
    "what an operator does is on record before what comes of it": Mutant(
        "machine",
        "        self._act_row(asked, order)\n        for leg in order.legs.values():\n",
        "        for leg in order.legs.values():\n",
    ),
    "who has confirmed an order does not get it once more": Mutant(
        "machine",
        "        failed = [leg.recipient for leg in order.failed]\n",
        "        failed = list(order.legs) if order.failed else []\n",
    ),
    "a receipt without a checksum finds its order": Mutant(
        "state", "(NO_SUM,) if checksum == UNSUMMED else rests(checksum, header)", "rests(checksum, header)"
    ),
    "the filter of a subscription is asked": Mutant(
        "machine", "if any(one.fits(names, command, performative) for one in wanted)", "if wanted"
    ),
    "a subscription ends": Mutant("state", "found.pop(row.source, set()) - {filter}", "found.pop(row.source, set())"),
    "a subscription is on record": Mutant(
        "state", "            self._follow(row, position)\n", "            self._know(self._order(row, position))\n"
    ),
    "an order that is kept is told to agents of this package": Mutant(
        "machine", "source.notices or self.lines[source.name].hello", "source.notices"
    ),
    "what fits no frame of its recipient ends": Mutant(
        "machine", "r.UNCONFIRMED if leg.tries > 1 else r.UNDELIVERED, words", "r.DELIVERED"
    ),
    "a lifetime ends": Mutant("machine", "        if order.lifetime:\n", "        if order.lifetime > 1e6:\n"),
}


def live(seed: int) -> None:
    from tests.relay.world import World

    World(seed).run()


if __name__ == "__main__":
    sys.exit(hunt(sys.argv[1], MUTANTS[sys.argv[1]], live, WORLDS, "rtmw.relay"))
