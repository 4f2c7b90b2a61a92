"""A log whose disk becomes full where a test says so: where exactly a real one does cannot be chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import rtmw
from rtmw.errors import LogFull

Places = Callable[..., list[tuple[int, int]]]


@contextmanager
def _appended_by(log: rtmw.Log[Any], places: Places) -> Iterator[None]:
    log._places = places  # type: ignore[method-assign]
    try:
        yield
    finally:
        del log._places


@contextmanager
def full_after(log: rtmw.Log[Any], batches: int, reserve: int = 0) -> Iterator[None]:
    """It takes so many batches more; then `reserve` of them that end work, and nothing at last."""
    places, left, reserved = log._places, batches, reserve

    def limited(data: list[Any], *, ends: bool = False) -> list[tuple[int, int]]:
        nonlocal left, reserved
        if left == 0 and not (ends and reserved):
            raise LogFull("the disk is full")
        if left:
            left -= 1
        else:
            reserved -= 1
        return places(data, ends=ends)

    with _appended_by(log, limited):
        yield


@contextmanager
def room_for(log: rtmw.Log[Any], room: int) -> Iterator[None]:
    """It takes records of so many bytes more; a batch of more than are left is refused, and smaller ones are not."""
    places, left = log._places, room

    def limited(data: list[Any], *, ends: bool = False) -> list[tuple[int, int]]:
        nonlocal left
        size = sum(map(len, data))
        if size > left:
            raise LogFull("the disk is full")
        left -= size
        return places(data, ends=ends)

    with _appended_by(log, limited):
        yield
