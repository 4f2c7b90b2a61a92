"""The work of a core for one peer (carry/desk.py)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from rtmw.transfer.address import Address
from rtmw.transfer.carry.desk import End, Work
from rtmw.transfer.core.desk import CoreDesk
from rtmw.transfer.core.newest import newest_of, unknown_of
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.header import Header
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Spooled, TransferId, TransferState, arriving_id, own_id
from rtmw.transfer.wire.frames import Offer

__all__ = ["NodeDesk"]


class NodeDesk:
    """`may`: raises TransferRefused for what the peer has no right to send. `is_self`: the peer is this
    core."""

    def __init__(self, core: CoreDesk, may: Callable[[Header, int], None], *, is_self: bool) -> None:
        self._core, self._may, self._is_self = core, may, is_self

    def _arriving(self, id: TransferId) -> TransferId:
        return arriving_id(id) if self._is_self else id

    def waiting(self, node: str) -> Iterable[Item]:
        return self._core.waiting(node)

    def newest_of(self, node: str) -> Sequence[tuple[int, int]]:
        return newest_of(self._core.host.machines, node)

    def has_had(self, node: str, newest: Sequence[tuple[int, int]], sent: Mapping[int, int]) -> None:
        unknown = None if self._is_self else unknown_of(self._core.host.machines, newest, sent)
        if unknown is not None:
            self._core.host.is_behind(node, unknown)

    def report(self, id: TransferId, state: TransferState, cause: str) -> Work:
        return self._core.report(id, state, cause)

    def report_run(self, states: Mapping[TransferId, TransferState]) -> bool:
        return self._core.report_run(states)

    def durable(self) -> Work:
        return self._core.host.durable()

    def spool(self, body: Spooled) -> Path:
        return self._core.host.spool.path(body)

    def folder(self, to: Address) -> Path | None:
        return self._core.host.folder(to)

    def check(self, header: Header, size: int) -> None:
        self._may(header, size)
        self._core.check_address(header)

    async def arrive(self, header: Header, body: bytes | Path, sender: str, id: TransferId) -> None:
        if isinstance(body, bytes):
            self._may(header, len(body))
        await self._core.arrive(header, body, sender, self._arriving(id))

    def arrive_run(self, header: Header, sender: str, letters: dict[TransferId, bytes]) -> bool:
        if self._is_self:  # it has files only, which are no letters
            return False
        try:
            self._may(header, header.length)
        except TransferRefused:
            return False
        return self._core.arrive_run(header, sender, letters)

    def look(self, id: TransferId) -> End | None:
        return self._core.look(self._arriving(id))

    def withdraw(self, id: TransferId) -> Work:
        return self._core.withdraw(self._arriving(id))

    def owed(self, node: str) -> Iterable[tuple[TransferId, End]]:
        return [(own_id(id) if self._is_self else id, end) for id, end in self._core.owed(node)]

    def settled(self, ids: Collection[TransferId]) -> None:
        self._core.settled([arriving_id(id) for id in ids] if self._is_self else ids)

    def freed(self, offer: Offer, cause: str) -> None:
        self._core.host.freed(offer, cause)

    def take_raw(self, header: Header, body: bytes, sender: str) -> None:
        self._may(header, len(body))
        self._core.take_raw(header, body, sender)
