"""Programs of a domain with a core of its own, as in `programs`."""

from __future__ import annotations

from tests.transfer.programs.conftest import core, inbox, sender

__all__ = ["core", "inbox", "sender"]
