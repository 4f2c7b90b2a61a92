"""Values to payloads and back, as a type's own functions have it."""

from __future__ import annotations

from typing import Any

from rtmw.types import MessageType


def encode(type: MessageType, value: Any) -> bytes:
    assert type.encode is not None
    return bytes(type.encode(value))


def decode(type: MessageType, payload: bytes) -> Any:
    assert type.decode is not None
    return type.decode(memoryview(payload))
