"""The name of a program: that of its file, without its arguments, which are nobody else's business."""

from __future__ import annotations

from typing import Final

PARKED: Final = "(no process: kept for the next node)"
"""What stands for the process of a subscription that a node has left to the next one."""
_TAKES_A_WORD = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python whose value is a word of its own."""


def program(process: str) -> str:
    """The name of a program without its interpreter and arguments: `panel.py` of `python -u panel.py --wide`.

    Of `rtmw` also which command of it: `rtmw topic echo`. `process`: what a participant is called, its command line
    without folders.
    """
    if process == PARKED:
        return process
    words = process.split()
    if words and words[0].startswith("python"):
        return _told_to_python(words)
    if words and words[0] == "rtmw":
        return " ".join(words[: 3 if words[1:2] == ["topic"] else 2])
    return words[0] if words else process


def _told_to_python(words: list[str]) -> str:
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-c":
            return f"{words[0]} -c"
        if words[at] == "-m":
            return program(" ".join(words[at + 1 :])) or words[0]
        at += 2 if words[at] in _TAKES_A_WORD else 1
    return program(" ".join(words[at:])) or words[0]
