"""The one error of a recording that cannot be believed, with its file and position."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rtmw.errors import RecordingDamaged

_ADVICE: Final = ". To save what is whole: rtmw recording recover "


def damaged(path: Path, position: int, what: str) -> RecordingDamaged:
    return RecordingDamaged(
        f"{path} is damaged at byte {position}: {what}{_ADVICE}{path}",
        path=str(path),
        position=position,
    )


def reason_of(error: RecordingDamaged) -> str:
    """The reason of an error, without the file, the position and the advice."""
    return str(error).removeprefix(f"{error.path} is damaged at byte {error.position}: ").partition(_ADVICE)[0]
