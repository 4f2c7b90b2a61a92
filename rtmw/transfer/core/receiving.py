"""Inboxes take letters of a core, and settle them."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Protocol

from rtmw.errors import LogFull
from rtmw.transfer.address import Life
from rtmw.transfer.core.effects import Do, Steps, tell
from rtmw.transfer.core.failing import FAILURES, failed
from rtmw.transfer.core.handing import Handing
from rtmw.transfer.core.machines import Machines
from rtmw.transfer.core.owners import Owners
from rtmw.transfer.events import ConsumeRun, SettleTransfer, TakeRun, TakeTransfer
from rtmw.transfer.frames import Frame
from rtmw.transfer.header import Delivery
from rtmw.transfer.messages import Consumed, Done, Failed, Settle, Take
from rtmw.transfer.queues import Item
from rtmw.transfer.records import TransferState
from rtmw.transfer.volatile import is_volatile

__all__ = ["Receiving"]


class Named(Protocol):
    """A member, as far as it can take."""

    @property
    def name(self) -> str: ...


class Receiving:
    """Of all inboxes. `members`: those that are there now; `handing`: which transfer is next."""

    def __init__(self, members: Mapping[Life, Named], machines: Machines, handing: Handing, owners: Owners) -> None:
        self._members, self._machines, self._handing, self._owners = members, machines, handing, owners
        self._waiting: dict[str, deque[Frame]] = {}
        """By service: the Takes that wait."""
        self._stalled: set[str] = set()
        """Services for which a full disk let nothing be taken."""
        self.redelivered = 0
        """Letters that were handed over once more."""

    def forget(self, life: Life, service: str) -> None:
        """It has left."""
        waiting = self._waiting.get(service)
        if waiting is not None:
            self._waiting[service] = deque(frame for frame in waiting if frame.life != life)

    def take(self, frame: Frame, take: Take) -> Steps:
        if take.txn:
            self._owners.check(frame, take.txn)
        service, count = self._members[frame.life].name, 0
        try:
            count = yield from self._hand(frame, take)
        except LogFull:
            if not take.waits:
                raise
            self._stalled.add(service)
        if count or not take.waits:
            yield tell(frame, Done(count))
        else:
            self._waiting.setdefault(service, deque()).append(frame)

    def untake(self, frame: Frame, take: int) -> Steps:
        waiting = self._waiting.get(self._members[frame.life].name, deque())
        for one in list(waiting):
            if (one.life, one.number) == (frame.life, take):
                waiting.remove(one)
                yield tell(one, Done(0))

    def _hand(self, frame: Frame, take: Take) -> Generator[Any, Any, int]:
        """The number of letters handed over. A letter that comes again comes alone: letters behind it must not share
        its fate if it ends its receiver. Of as many as a full disk has no room for, fewer are taken. Raises LogFull: it
        lets none be taken."""
        service, count, most = self._members[frame.life].name, 0, take.most
        while count < take.most and (head := self._handing.head(service, frame.life, take.txn)) is not None:
            if count and head.deliveries:
                break
            try:
                items = yield from self._take(head, frame, take, min(most, take.most - count))
            except LogFull:
                most //= 2
                if most:
                    continue
                if count:
                    break
                raise
            count += len(items)
            if items and items[0].deliveries > 1:
                break
        return count

    def _take(self, head: Item, frame: Frame, take: Take, most: int) -> Generator[Any, Any, Sequence[Item]]:
        """Hands over the letters that come first in the machine of the first one, if they go the common way; else the
        first one; none, if its time was over."""
        service, logged = self._members[frame.life].name, not is_volatile(head.lsn)
        items: Sequence[Item] = ()
        item: Item | None
        if not take.txn and self._handing.has_one_machine(service, frame.life):
            items = yield Do(TakeRun(service, frame.life, most), logged)
        if not items:
            item = yield Do(TakeTransfer(service, frame.life, take.txn), logged)
            items = () if item is None else (item,)
        self.redelivered += sum(item.deliveries > 1 for item in items)
        for message in self._handing.handed_all(items):
            yield tell(frame, message, logged)
        for item in items:
            if item.record.header.delivery is Delivery.SMALL_RAW:
                yield Do(SettleTransfer(item.lsn, TransferState.CONSUMED), logged)
        return items

    def serve(self, service: str) -> Steps:
        """Something has come for this service: the inbox that has waited longest is first."""
        waiting = self._waiting.get(service)
        for frame in list(waiting or ()):
            assert isinstance(frame.message, Take)
            try:
                count = yield from self._hand(frame, frame.message)
            except LogFull:
                self._stalled.add(service)
                return
            if count and waiting is not None:
                waiting.remove(frame)
                yield tell(frame, Done(count))

    def serve_stalled(self) -> Steps:
        """There may be room again."""
        stalled, self._stalled = self._stalled, set()
        for service in stalled:
            yield from self.serve(service)

    def settle(self, frame: Frame, settle: Settle) -> Steps:
        """A letter that is gone was settled before a crash that lost the answer: no other receiver can have had it
        meanwhile."""
        state = yield from self._settle(frame.life, settle)
        yield tell(frame, Done(state), not is_volatile(settle.item))

    def _settle(self, life: Life, settle: Settle) -> Generator[Any, Any, TransferState]:
        state = TransferState(settle.state)
        if settle.item in self._machines.of(settle.item).state.items:
            state = yield Do(SettleTransfer(settle.item, state, settle.cause, life), not is_volatile(settle.item))
        return state

    def consume(self, frame: Frame, items: tuple[int, ...]) -> Steps:
        """In one step of each machine; what cannot be goes letter by letter."""
        volatile = [item for item in items if is_volatile(item)]
        logged = [item for item in items if not is_volatile(item)] if volatile else items
        alone: set[int] = set()
        for run in filter(None, (logged, volatile)):
            if not (yield Do(ConsumeRun(run, frame.life), run is logged)):
                alone.update(run)
        failures: list[tuple[int, Failed]] = []
        for index, item in enumerate(items if alone else ()):
            if item in alone:
                try:
                    yield from self._settle(frame.life, Settle(item, TransferState.CONSUMED, ""))
                except FAILURES as error:
                    failures.append((index, failed(error)))
        yield tell(frame, Consumed(tuple(failures)), bool(logged))
