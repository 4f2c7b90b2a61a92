"""Values to payloads and back, as a type's own functions have it."""

from __future__ import annotations

from typing import Any

from rtmw.types import MessageType


def encode(kind: MessageType, value: Any) -> bytes:
    assert kind.encode is not None
    return bytes(kind.encode(value))


def decode(kind: MessageType, payload: bytes) -> Any:
    assert kind.decode is not None
    return kind.decode(memoryview(payload))
