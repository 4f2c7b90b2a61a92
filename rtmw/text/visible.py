"""Text that others wrote, as people may see it.

Names, types, hosts, keys and messages come from files, programs and peers. At the edge, where text goes to a terminal,
a log, a picture or a page, it passes `visible`.
"""

from __future__ import annotations

import re
from typing import Final

_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that Python calls printable and that nobody sees: fillers, and what selects variants of a character."""


def visible(text: str) -> str:
    """The text, with an escape such as \\x1b, \\n or \\u202e for each character that steers a terminal, ends a line,
    turns the direction of reading or has no width of its own. Applied to its result, it changes nothing."""
    if text.isprintable() and (text.isascii() or not _UNSEEN.search(text)):
        return text
    return "".join(map(_seen, text))


def _seen(letter: str) -> str:
    if letter.isprintable() and not _UNSEEN.match(letter):
        return letter
    return letter.encode("unicode_escape").decode()


def markup(text: str) -> str:
    """The visible text as text of HTML, of SVG, or of an attribute there."""
    from html import escape  # only needed here

    return escape(visible(text))


def label(text: str) -> str:
    """The visible text as Matplotlib takes it; a dollar sign begins no formula."""
    return visible(text).replace("$", r"\$")
