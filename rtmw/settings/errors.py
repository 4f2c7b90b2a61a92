"""Errors of settings."""

from __future__ import annotations

from rtmw.errors import RtmwError


class SettingsError(RtmwError):
    """A setting is not one, or its value cannot be; the message names the file, the line and the key."""
