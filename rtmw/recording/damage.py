"""The one error of a recording that cannot be believed, with its file and position."""

from __future__ import annotations

from pathlib import Path

from rtmw.errors import RecordingDamaged


def damaged(path: Path, position: int, what: str) -> RecordingDamaged:
    return RecordingDamaged(
        f"{path} is damaged at byte {position}: {what}. To save what is whole: rtmw recording recover {path}",
        path=str(path),
        position=position,
    )
