"""Errors of settings."""

from __future__ import annotations

from typing import Final

from rtmw.errors import RtmwError

_LONGEST: Final = 600


def in_short(text: str) -> str:
    """A text that quotes what a file says, which may be long: its beginning and its end, where the advice is."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


class SettingsError(RtmwError):
    """A setting is not one, or its value cannot be; the message names the file, the line and the key."""
