"""`rtmw.Transaction`: sends and takes that become valid together, with savepoints (T10)."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rtmw.transfer.client.options import SendOptions
from rtmw.transfer.client.transfer import Transfer
from rtmw.transfer.client.waiting import Pending
from rtmw.transfer.errors import TransactionAborted
from rtmw.transfer.header import Delivery, Level
from rtmw.transfer.messages import Abort, Begin, Commit, Done, Message, Release, RollBack
from rtmw.transfer.messages import Savepoint as SetSavepoint

if TYPE_CHECKING:
    from rtmw.log import Label
    from rtmw.transfer.client.inbox import Inbox, Letter
    from rtmw.transfer.client.sender import Sender

__all__ = ["Savepoint", "Transaction"]


class Savepoint:
    """A place in a transaction to which it can be rolled back."""

    __slots__ = ("lsn", "name")

    def __init__(self, name: str, lsn: int) -> None:
        self.name = name
        self.lsn = lsn
        """Position of its record in the log of the core."""

    def __repr__(self) -> str:
        return f"<rtmw.Savepoint {self.name!r}>"


class Transaction:
    """Made by `Sender.transaction`. Nobody sees what it sends, nor gets what it has taken, until it is committed.

    As a `with` block it is committed at the end, and undone after an exception. All that it sends is logged; it takes
    only what is logged. It is undone as a whole when it is open for longer than 60 seconds, or becomes too large, and
    when its program or its core ends: then its calls raise TransferError. One thread at a time.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self.number = self._ask(Begin())
        """Number of the transaction in the log of the core."""
        self._sent: list[Transfer] = []
        self._savepoints: list[Savepoint] = []
        self._is_over = self._is_lost = False
        """The program has ended it; the core has undone it."""

    def _ask(self, message: Message) -> int:
        answer = self._sender._line.ask(self._sender._life, message)
        assert isinstance(answer, Done), "what a transaction asks is answered with Done"
        return answer.value

    def _check(self) -> None:
        if self._is_over:
            raise ValueError(f"transaction {self.number} has been committed or undone; begin a new one")
        if self._is_lost:
            raise TransactionAborted(
                f"transaction {self.number} was undone, because its core was started anew; begin a new one"
            )

    def _core_changed(self) -> bool:
        """Note that another core is there, in the thread of the sender's line. A transaction without COMMIT is undone;
        a COMMIT is asked again. Was it undone by this?"""
        was_lost, self._is_lost = self._is_lost, self._is_lost or not self._is_over
        return self._is_lost and not was_lost

    def send(
        self,
        to: str,
        body: Any,
        *,
        delivery: Delivery = Delivery.NORMAL,
        wait: Level = Level.ACCEPTED,
        lifetime: float | None = None,
        timeout: float | None = None,
        priority: int = 0,
        id: Label | None = None,
    ) -> Transfer:
        """Send as Sender.send does; the transfer is valid when the transaction is committed. The call returns at once;
        what the core does not accept is raised by the next call. ValueError: SMALL_RAW, which is not logged; a level to
        wait for."""
        self._check()
        if delivery is Delivery.SMALL_RAW:
            raise ValueError("SMALL_RAW in a transaction is not possible, because it is not logged; use Delivery.LOG")
        if wait > Level.ACCEPTED:
            raise ValueError("nothing in a transaction goes anywhere before COMMIT; commit, and use Transfer.wait then")
        options = SendOptions(delivery, wait, lifetime, timeout, priority, id)
        transfer = self._sender._send_in(self.number, to, body, options)
        transfer._transaction = self
        self._sent.append(transfer)
        return transfer

    def take(self, inbox: Inbox) -> Letter | None:
        """Take the first letter of an inbox that is logged; None: there is none. COMMIT consumes it; if the transaction
        is undone, it is back in its place."""
        self._check()
        self._wait_for_accepts()
        return inbox._take_in(self._sender, self.number)

    def savepoint(self, name: str | None = None) -> Savepoint:
        """Set a savepoint, and return it. If several have one name, the name means the newest."""
        self._check()
        self._wait_for_accepts()
        if name == "":
            raise ValueError("name='' is not possible; leave it out, and the savepoint gets a name of its own")
        chosen = name if name is not None else f"savepoint {len(self._savepoints) + 1}"
        made = Savepoint(chosen, self._ask(SetSavepoint(self.number, chosen)))
        self._savepoints.append(made)
        return made

    def rollback(self, to: Savepoint | str | None = None) -> None:
        """Undoes what came after a savepoint, which stays; later ones are destroyed. None: all of the transaction,
        which goes on. ValueError: there is no such savepoint."""
        self._check()
        self._wait_for_accepts()
        found = None if to is None else self._find(to)
        self._ask(RollBack(self.number, 0 if found is None else found.lsn))
        self._keep_before(0 if found is None else found.lsn + 1)

    def release(self, savepoint: Savepoint | str) -> None:
        """Destroys a savepoint and those after it; nothing is undone. ValueError: there is no such savepoint."""
        self._check()
        found = self._find(savepoint)
        self._ask(Release(self.number, found.lsn))
        self._keep_before(found.lsn)

    def _find(self, wanted: Savepoint | str) -> Savepoint:
        for one in reversed(self._savepoints):
            if wanted in (one, one.name):
                return one
        names = ", ".join(repr(one.name) for one in reversed(self._savepoints)) or "none"
        shown = wanted if isinstance(wanted, str) else wanted.name
        raise ValueError(f"transaction {self.number} has no savepoint {shown!r}; it has {names}")

    def _keep_before(self, lsn: int) -> None:
        self._savepoints = [one for one in self._savepoints if one.lsn < lsn]

    def _wait_for_accepts(self) -> None:
        """Wait until all that was sent was accepted. What was not is raised here, and the transaction is undone."""
        sent, self._sent = self._sent, []
        try:
            for transfer in sent:
                if transfer._pending is not None:
                    self._sender._line.wait(transfer._pending)
        except BaseException:
            self._end_quietly()
            raise

    def commit(self) -> None:
        """Commit the transaction. When this returns, all is valid, visible, and on the disk. TransferError: it was
        undone, and why.

        CoreNotRunning, TimeoutError: the core ended meanwhile, and none came; the next one knows whether it is
        committed.
        """
        self._check()
        self._wait_for_accepts()
        self._is_over = True
        line = self._sender._line
        line.wait(line.requests.begin(Pending(self._sender._life, Commit(self.number), on_done=self._committed)))

    def _committed(self, pending: Pending) -> None:
        """Take the answer to the COMMIT. In the thread of the line."""
        self._is_lost = isinstance(pending.error, TransactionAborted)

    def abort(self) -> None:
        """Undoes all of it. Does nothing if it was undone already."""
        if not self._is_over and not self._is_lost:
            self._is_over = True
            self._ask(Abort(self.number))

    def _end_quietly(self) -> None:
        try:
            self.abort()
        except (ValueError, TransactionAborted):
            return  # the core has undone it already

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_over:
            return
        if kind is None:
            self.commit()
        else:
            self._end_quietly()

    def __repr__(self) -> str:
        return f"<rtmw.Transaction {self.number}{', over' if self._is_over or self._is_lost else ''}>"
