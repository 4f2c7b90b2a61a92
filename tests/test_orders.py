"""Each ordered access of a word that threads or processes share stands in docs/design/orders.md, with its partner."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "design" / "orders.md"
ORDERED = (
    "load_acquire|store_release|load_seq|store_seq|fetch_or|fetch_and|fetch_add|fetch_sub|exchange|cas64|cas32|raise_to"
)


def first_argument(text: str) -> str:
    """Up to the comma or parenthesis that ends it, which lies in none of its own."""
    depth = 0
    for at, letter in enumerate(text):
        if depth == 0 and letter in ",)":
            return text[:at]
        depth += (letter in "([") - (letter in ")]")
    raise AssertionError(f"an access without an end: {text[:60]}")


def word_of(argument: str) -> str:
    """The field that an access names: `state` of `&r->descriptors[link_index(x)].state`."""
    bare = argument
    while (shorter := re.sub(r"\[[^\[\]]*\]|\([^()]*\)", "", bare)) != bare:
        bare = shorter
    names: list[str] = re.findall(r"[A-Za-z_]\w*", bare.strip() or argument)
    return names[-1]


Word = tuple[str, str]
"""The folder of the sources, and the name."""


def accesses() -> dict[Word, set[str]]:
    """By word: the ordered operations on it in the sources in C."""
    found: dict[Word, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "rtmw").rglob("*.[ch]")):
        if path.name == "atomics.h":
            continue
        folder = str(path.parent.relative_to(ROOT))
        code = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for match in re.finditer(rf"\b({ORDERED})\(", code):
            found[folder, word_of(first_argument(code[match.end() :]))].add(match.group(1))
    return found


def rows() -> Iterator[tuple[Word, set[str]]]:
    """Words, and the operations that the page names of each. A heading names the folder, else it is the core's."""
    folder = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            named = re.search(r"`(rtmw/[\w/]+)`", line)
            folder = named[1] if named else "rtmw/shm"
        elif line.startswith("| `"):
            _, words, access, *_ = line.split("|")
            for word in words.split():
                yield (folder, word.strip("`")), set(re.findall(r"`(\w+)`", access))


def test_each_word_has_a_row_that_names_its_ordered_accesses_and_no_others() -> None:
    assert dict(rows()) == dict(accesses())


def test_no_word_has_two_rows() -> None:
    words = [word for word, _ in rows()]
    assert len(words) == len(set(words)) > 50


def test_an_access_is_read_as_the_word_that_it_names() -> None:
    assert word_of(first_argument("&r->descriptors[link_index(x)].holders[me >> 6], bit)")) == "holders"
    assert word_of(first_argument("word_at(table, slot))")) == "word_at"
    assert word_of(first_argument("maker)")) == "maker"
