"""What two nodes have had of each other, so that one whose store was set back to an older state finds out.

Such a store gives ids anew that the other node knows, and what came under them would be dropped there as a duplicate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rtmw.transfer.core.machines import Machines
from rtmw.transfer.records import TransferId

__all__ = ["newest_of", "unknown_of"]


def newest_of(machines: Machines, node: str) -> list[tuple[int, int]]:
    """Of what has come from this node: each incarnation, and the largest sequence of it."""
    known = [machine.state.seen.marks.get(node, {}) for machine in (machines.logged, machines.volatile)]
    return [(incarnation, mark.high) for marks in known for incarnation, mark in marks.items() if mark.high >= 0]


def unknown_of(machines: Machines, newest: Sequence[tuple[int, int]], sent: Mapping[int, int]) -> TransferId | None:
    """An id that another node has had of this one, which was not given by it; None: there is none. `newest`: what that
    node says, as `newest_of`; `sent`: what this core has offered to it, likewise. Ids of earlier lives are in the log;
    those of this life were offered by this core."""
    for state in (machines.logged.state, machines.volatile.state):
        for incarnation, sequence in newest:
            known = max(sent.get(incarnation, 0), (state.life << 32) - 1)
            if incarnation == state.incarnation and sequence > known:
                return TransferId(state.node, incarnation, sequence)
    return None
