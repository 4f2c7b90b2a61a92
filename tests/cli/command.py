"""Running a command of `rtmw` in a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Run = Callable[..., tuple[int, str, str]]


def document(run: Run, *arguments: str) -> Any:
    """The JSON that a command printed."""
    status, out, err = run(*arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)
