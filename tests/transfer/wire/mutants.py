"""Rules of the protocol between two cores that are taken out one by one: each has to be found by worlds.

    python -m tests.transfer.wire.mutants "the name of one"

Status 1: it was found; 0: it was not.
"""

from __future__ import annotations

import sys
from typing import Final

from tests.transfer.mutants import Mutant, hunt

WORLDS: Final = 1200

MUTANTS: Final = {
    "what may have come whole is not said to be cancelled": Mutant(
        "wire.sending", "        if not one.in_doubt:\n", "        if True:\n"
    ),
    "after WHOLE, the peer may have it": Mutant(
        "wire.sending",
        "one.phase, one.in_doubt = Phase.WHOLE, True\n            self._letters.write()",
        "one.phase = Phase.WHOLE\n            self._letters.write()",
    ),
    "a source that has gone fails nothing that may have come whole": Mutant(
        "wire.sending",
        "        elif one.in_doubt:\n            self._ask_first",
        "        elif False:\n            self._ask_first",
    ),
    "what the peer has is hashed before more is sent": Mutant(
        "wire.sending",
        "        one.chain, one.phase = Chain(block, one.known_before(frame.position, block)), Phase.CATCHING_UP",
        "        one.chain, one.phase = Chain(block, one.known_before(frame.position, block)), Phase.CATCHING_UP\n"
        "        one.chain.position = one.goal = frame.position",
    ),
    "after a restart, the last block that was sent is compared": Mutant(
        "wire.under_way", "return self.marks.get(logged.position, logged).value == logged.value", "return True"
    ),
    "a letter that was offered may be at the peer": Mutant(
        "wire.sending",
        "one.phase, one.in_doubt = Phase.WHOLE, True\n            self._letters.add",
        "one.phase = Phase.WHOLE\n            self._letters.add",
    ),
    "the refs of letters follow one after the other": Mutant(
        "wire.under_way", "            self.write()\n            self._first", "            self._first"
    ),
    "letters with another header go in another frame": Mutant(
        "wire.under_way", "if common != self._common or", "if not self._common or"
    ),
    "letters that wait go out before another offer": Mutant(
        "wire.sending", "        self._letters.write()\n        left =", "        left ="
    ),
    "letters go out at the end of the step": Mutant(
        "wire.sending",
        "self._offer_of(self._lanes[key], queue, key)\n        self._letters.write()\n",
        "self._offer_of(self._lanes[key], queue, key)\n",
    ),
    "of reports together each counts": Mutant("wire.sending", "for id in ids:", "for id in ids[:1]:"),
    "letters that come are bound to their refs": Mutant(
        "wire.receiving",
        "                self._bind(one, ref)\n                new[id] = body\n",
        "                new[id] = body\n",
    ),
    "letters that come again and are put off are put off on the new stream": Mutant(
        "wire.receiving", "                one.ref = ref  # for the answer", "                pass  # for the answer"
    ),
    "what waits for an answer is offered again on a new stream": Mutant(
        "wire.sending",
        "if one.phase not in (Phase.AT_PEER, Phase.RETURNING, Phase.ENDED):",
        "if one.phase not in (Phase.AT_PEER, Phase.RETURNING, Phase.ENDED, Phase.WHOLE):",
    ),
    "what is at the peer is asked for on a new stream": Mutant(
        "wire.sending",
        "            if one.phase is Phase.AT_PEER:\n                self._ask(one)\n            elif",
        "            if",
    ),
    "a cancel is said again on a new stream": Mutant(
        "wire.sending", "if one.withdrawn and one.phase is not Phase.ENDED:", "if False:"
    ),
    "what is withdrawn is not offered": Mutant(
        "wire.sending", "one.phase is Phase.WAITING and not one.withdrawn", "one.phase is Phase.WAITING"
    ),
    "bytes that were read for an earlier stream are not sent": Mutant(
        "wire.sending", "if asked != one.ref or one.chain is None:", "if one.chain is None:"
    ),
    "what was read for an earlier stream gives way to the next turn": Mutant(
        "wire.sending", "            self._await_turn(one)  # these bytes are of a stream before\n", ""
    ),
    "a window that opens gives a turn": Mutant(
        "wire.sending",
        "self.advanced.add(one.add.id)\n        self._await_turn(one)\n",
        "self.advanced.add(one.add.id)\n",
    ),
    "a turn from before an offer was put off counts not": Mutant(
        "wire.sending",
        "one.ref, one.turn, one.reserved, one.is_queued = 0, 0, 0, False\n",
        "one.ref, one.reserved, one.is_queued = 0, 0, False\n",
    ),
    "an end that is known already is settled again": Mutant(
        "wire.sending", "if one is None and state in ENDED:", "if False:"
    ),
    "a part of what the sender does not have is cancelled": Mutant(
        "wire.sending", "            if one is None or one.phase is Phase.ENDED:", "            if False:"
    ),
    "READY or the time offers again": Mutant(
        "wire.sending", "        if one is not None and not one.is_queued and not one.ref:", "        if False:"
    ),
    "the window begins at what is durable": Mutant(
        "wire.receiving", "else one.durable + self.terms.reach", "else one.received + self.terms.reach"
    ),
    "a small transfer begins with its first byte on a new stream": Mutant(
        "wire.receiving", "            if one.received:\n                self._rewind(one)", "            pass"
    ),
    "a larger transfer goes on where it was": Mutant(
        "wire.receiving",
        "        else:\n            self._go(one)\n\n    def _go",
        "        else:\n            self._rewind(one)\n            self._go(one)\n\n    def _go",
    ),
    "ends that were not settled are said again": Mutant(
        "wire.receiving", "        self._out.append(e.ListOwed())\n", "        pass\n"
    ),
    "what is being completed is not begun again": Mutant(
        "wire.receiving",
        "        if one.stage is Stage.COMPLETING:\n",
        "        if False:\n",
    ),
    "a hash that differs completes nothing": Mutant(
        "wire.receiving", "if frame.value == one.chain.value:", "if True:"
    ),
    "a letter waits for the front of its lane": Mutant("wire.sending", "is_front = one is front", "is_front = True"),
    "WHOLE waits for the front of its lane": Mutant(
        "wire.sending",
        "        self._stir(one)\n        self._await_turn(one)\n\n    def _await_turn",
        "        if one.is_sent:\n            one.phase, one.in_doubt = Phase.WHOLE, True\n"
        "            self._write(f.Whole(one.ref, one.chain.value))\n"
        "        self._await_turn(one)\n\n    def _await_turn",
    ),
    "what the peer is asked about holds back its lane": Mutant(
        "wire.under_way", "self.is_queued or self.is_asked or", "self.is_queued or"
    ),
    "what is to be sent again holds back its lane": Mutant(
        "wire.under_way", ", Phase.SENDING, Phase.RETURNING}", ", Phase.SENDING}"
    ),
    "an answer lets the lane go on": Mutant(
        "wire.sending", "        one.is_asked = False\n        self._leave(one)\n", "        self._leave(one)\n"
    ),
    "what fails holds back nothing": Mutant(
        "wire.sending",
        "        one.phase = Phase.ENDED\n        del self.transfers[one.add.id]\n        if self._frames",
        "        del self.transfers[one.add.id]\n        if self._frames",
    ),
    "what was sent earlier goes first, though it was put off": Mutant(
        "wire.under_way",
        "        return one.add.id.incarnation, one.add.id.sequence, self._entries, one",
        "        return 0, 0, self._entries, one",
    ),
    "the receiver hands over in the order of WHOLE": Mutant(
        "wire.receiving", "                return\n            heapq.heappop(lane)", "            heapq.heappop(lane)"
    ),
    "what was placed before a crash waits for what was sent before it": Mutant(
        "wire.receiving", " and not (first.is_placed and self._is_behind(first)):", ":"
    ),
    "what the peer is asked about holds back offers, too": Mutant(
        "wire.sending", " or not (front and front.ref)):", "):"
    ),
    "letters stand in line": Mutant(
        "wire.receiving",
        "self._line_up(lane_key(run.sender, run.header), first, e.TakeLetters(run.sender, run.header, new))",
        "self._take_letters(e.TakeLetters(run.sender, run.header, new))",
    ),
    "an early WHOLE has its place in line": Mutant(
        "wire.receiving", "        if isinstance(frame, f.Whole):\n            self._is_whole(one)\n", ""
    ),
}  # fmt: skip


def live(seed: int) -> None:
    from tests.transfer.wire.world import run

    run(seed)


if __name__ == "__main__":
    sys.exit(hunt(sys.argv[1], MUTANTS[sys.argv[1]], live, WORLDS))
