"""PyArrow has no types of its own: anything may be had from it."""

from typing import Any

def __getattr__(name: str) -> Any: ...
