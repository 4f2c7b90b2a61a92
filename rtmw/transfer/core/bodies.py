"""Bodies that come as chains of blocks (T5): small ones in memory, large ones in files of the spool."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from rtmw.transfer.address import Life
from rtmw.transfer.core.effects import Drop, Finish, Key, Steps, Write, tell
from rtmw.transfer.core.failing import failed
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.frames import LARGEST_BYTES, Frame
from rtmw.transfer.header import Delivery
from rtmw.transfer.messages import Send
from rtmw.transfer.records import LARGEST_INLINE, Spooled

__all__ = ["Bodies", "Chain", "is_logged", "lies_in_memory"]


def is_logged(send: Send) -> bool:
    """All of a transaction is logged."""
    return send.header.delivery is Delivery.LOG or send.txn != 0


def lies_in_memory(send: Send) -> bool:
    """Its body lies in no file of the spool."""
    return send.header.length <= (LARGEST_INLINE if is_logged(send) else LARGEST_BYTES)


@dataclass(slots=True)
class Chain:
    """A body of which a part has come."""

    send: Send
    """Without its data."""
    got: int = 0
    memory: bytearray = field(default_factory=bytearray)

    @property
    def in_memory(self) -> bool:
        return lies_in_memory(self.send)


class Bodies:
    """Of all programs. Raises TransferRefused: blocks that are longer than their header says."""

    def __init__(self) -> None:
        self._chains: dict[Key, Chain] = {}

    def begin(self, key: Key, send: Send) -> None:
        self._chains[key] = Chain(Send(send.txn, send.header, send.once, b""))

    def take(self, key: Key, data: bytes) -> Generator[Any, Any, Chain | None]:
        """The next block. None: it was refused or given up before, so nobody waits for it."""
        chain = self._chains.get(key)
        if chain is None:
            return None
        chain.got += len(data)
        if chain.got > chain.send.header.length:
            yield from self.drop(key)
            raise TransferRefused(f"{chain.got} bytes of a body whose header says {chain.send.header.length}")
        if chain.in_memory:
            chain.memory += data
        else:
            try:
                yield Write(key, chain.send.header.length, data, is_logged(chain.send))
            except OSError:
                yield from self.drop(key)
                raise
        return chain

    def finish(self, key: Key) -> Generator[Any, Any, bytes | Spooled]:
        """All has come."""
        chain = self._chains.pop(key)
        if chain.in_memory:
            return bytes(chain.memory)
        body: Spooled = yield Finish(key, chain.got)
        return body

    def drop(self, key: Key) -> Steps:
        if self._chains.pop(key, None) is not None:
            yield Drop(key)

    def give_up(self, frame: Frame) -> Steps:
        """Its sender sends no more of it. Nobody is told of a body that has come, or was refused: that was answered."""
        key = frame.life, frame.number
        chain = self._chains.get(key)
        if chain is not None:
            yield from self.drop(key)
            error = TransferRefused(f"its sender gave it up after {chain.got} of {chain.send.header.length} bytes")
            yield tell(frame, failed(error), False)

    def arriving(self, name_of: Callable[[Life], str]) -> list[dict[str, Any]]:
        """Those of which a part has come, as rows. `name_of`: a sender."""
        return [
            {
                "from": name_of(life),
                "to": str(chain.send.header.to),
                "got": chain.got,
                "bytes": chain.send.header.length,
                "waits": False,
            }
            for (life, _), chain in self._chains.items()
        ]

    def drop_all(self, life: Life) -> Steps:
        for key in [key for key in self._chains if key[0] == life]:
            yield from self.drop(key)
