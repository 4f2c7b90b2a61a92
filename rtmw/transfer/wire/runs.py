"""What follows each other and has much in common goes in one frame: letters, and what is said of several transfers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rtmw.transfer.header import Header
from rtmw.transfer.records import TransferId, TransferState
from rtmw.transfer.wire import events as e
from rtmw.transfer.wire import frames as f
from rtmw.transfer.wire.run_bytes import value_of

__all__ = ["Letters", "runs_of"]

LARGEST_RUN: Final = 32 << 10
"""Bytes of the letters of a run, about: other frames go between."""


def runs_of(states: Mapping[TransferId, TransferState]) -> list[tuple[TransferState, list[TransferId]]]:
    """Transfers of one incarnation that have one state."""
    found: dict[tuple[TransferState, str, int], list[TransferId]] = {}
    for id, state in states.items():
        found.setdefault((state, id.node, id.incarnation), []).append(id)
    return [(key[0], ids) for key, ids in found.items()]


class Letters:
    """Letters that are offered, in the order of their refs, until they are written. `write`: of a frame."""

    def __init__(self, write: Callable[[f.Frame], None]) -> None:
        self._write_frame = write
        self._common: tuple[str, Header, str, int] | None = None
        """Sender, header, node and incarnation of all of them."""
        self._first = self._size = 0
        """The ref of the first one; bytes of all."""
        self._letters: dict[TransferId, bytes] = {}

    def add(self, ref: int, add: e.Add, body: bytes) -> None:
        common = add.sender, add.header, add.id.node, add.id.incarnation
        if common != self._common or self._size > LARGEST_RUN:
            self.write()
            self._first, self._common = ref, common
        self._letters[add.id] = body
        self._size += len(body)

    def write(self) -> None:
        """Before anything else is offered, and at the end of a step."""
        if self._common is not None:
            sender, header, *_ = self._common
            self._write_frame(f.LetterRun(self._first, value_of(self._letters), sender, header, self._letters))
            self._letters, self._common, self._size = {}, None, 0
