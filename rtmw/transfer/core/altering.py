"""Changes of a transfer by people and senders: it is cancelled, or a dead letter is tried again.

What may be at another node already is not called cancelled before that node says so: the program that asks waits for
its report, or for the end of the session with that node. It is answered behind the frame that tells senders of the
cancel, so a sender that has the answer knows its transfer's state.
"""

from __future__ import annotations

from typing import Any, Protocol

from rtmw.transfer import messages
from rtmw.transfer.core.effects import Do, Steps, Tell, Withdraw
from rtmw.transfer.core.machines import Machines
from rtmw.transfer.core.progress import Progress
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.events import Moved, SettleTransfer
from rtmw.transfer.frames import Frame
from rtmw.transfer.messages import Message
from rtmw.transfer.queues import Item
from rtmw.transfer.records import TransferId, TransferState
from rtmw.transfer.store import is_volatile

__all__ = ["Altering", "Elsewhere"]

_REFUSED = 0
_WHY = "asked for"
_TAKEN = (TransferState.DELIVERED, TransferState.DEAD)


class Elsewhere(Protocol):
    """The other nodes, as far as they are looked at."""

    def is_up(self, node: str) -> bool: ...

    def why_waits(self, item: Item) -> str: ...

    def progress(self, item: Item) -> Progress: ...

    def arriving(self) -> list[dict[str, Any]]: ...

    def advanced(self) -> set[TransferId]: ...


class Altering:
    """Changes transfers of one core that somebody asks it to; see the head of this file."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._asked: dict[TransferId, list[Frame]] = {}
        """Requests that wait for the answer whether a transfer could be cancelled."""
        self._at: dict[TransferId, str] = {}
        """The node that has to say so, for each transfer in `_asked` for which another node has to."""

    def alter(self, frame: Frame, id: TransferId, state: TransferState, nodes: Elsewhere) -> Steps:
        """Cancel a transfer, or try a dead letter again; answer the frame now or later. Raises TransferRefused."""
        item = self._machines.find(id)
        if item is None:
            raise TransferRefused(f"there is no transfer {id}; it has ended, or never was")
        if state is TransferState.ACCEPTED and item.state is not TransferState.DEAD:
            raise TransferRefused(f"transfer {id} is {item.state.name}, and no dead letter; only those are tried again")
        node = item.record.header.to.node
        if node and state is not TransferState.CANCELLED:
            raise TransferRefused(f"transfer {id} is for node {node!r}, which says how it ends: try it again there")
        if node and item.state in _TAKEN:
            raise TransferRefused(f"transfer {id} is {item.state.name}")  # its node would say nothing new
        logged = not is_volatile(item.lsn)
        if state is not TransferState.CANCELLED:
            settled = yield Do(SettleTransfer(item.lsn, state, _WHY), logged)
            yield _answer(frame, messages.Done(settled), logged)
        elif not node or (yield Withdraw(item)):
            yield Do(SettleTransfer(item.lsn, state, _WHY), logged)
            self._asked.setdefault(id, []).append(frame)
        elif nodes.is_up(node):
            self._asked.setdefault(id, []).append(frame)
            self._at[id] = node
        else:
            raise TransferRefused(_not_connected(id, node))

    def look(self, nodes: Elsewhere) -> Steps:
        """Answer requests that wait for a node whose session has ended. Call it now and then."""
        for id, node in [one for one in self._at.items() if not nodes.is_up(one[1])]:
            yield from self._refuse(id, _not_connected(id, node), logged=False)

    @property
    def waits(self) -> bool:
        """Does somebody wait for anything?"""
        return bool(self._asked)

    def is_asked(self, note: Moved) -> bool:
        """Does somebody wait to hear that this transfer has moved?"""
        return note.id in self._asked and note.state not in (TransferState.ACCEPTED, TransferState.SENT)

    def answer(self, note: Moved, logged: bool) -> Steps:
        """Answer all who wait for this transfer."""
        if note.state is not TransferState.CANCELLED:
            name = note.state.name if note.state is not None else "undone"
            yield from self._refuse(note.id, f"transfer {note.id} is {name}", logged)
            return
        self._at.pop(note.id, None)
        for frame in self._asked.pop(note.id):
            yield _answer(frame, messages.Done(note.state), logged)

    def _refuse(self, id: TransferId, why: str, logged: bool) -> Steps:
        self._at.pop(id, None)
        for frame in self._asked.pop(id):
            yield _answer(frame, messages.Failed(_REFUSED, why), logged)


def _not_connected(id: TransferId, node: str) -> str:
    return (
        f"transfer {id} may be at node {node!r}, which is not connected: it is cancelled when it is again, if nobody "
        "has taken it by then"
    )


def _answer(frame: Frame, message: Message, logged: bool) -> Tell:
    return Tell(Frame(frame.life, frame.slot, frame.number, message), logged)
