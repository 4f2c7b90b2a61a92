"""Loads the player: C that calls our own core by name."""

from __future__ import annotations

from rtmw.shm import make_linkable

__all__ = ["CUE", "Player"]

make_linkable()

from rtmw.player._player import CUE, Player  # noqa: E402  the names have to be there first
