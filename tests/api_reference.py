"""docs/api.md from the docstrings and the types of rtmw: `python -m tests.api_reference` writes it again."""

from __future__ import annotations

import importlib
import re
import textwrap
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "api.md"

HEAD = """# API reference

The public API, from the docstrings: `python -m tests.api_reference` writes this page. [The index](README.md) names the
pages that say how the parts work. For C and C++: `rtmw/shm/rtmw.h`.

Times are seconds, and names that end in `_ns` are nanoseconds. Sizes are bytes. Every error is an `RtmwError`, or a
`ValueError` or `TypeError` for an argument that cannot be. A parameter that may be left out shows its default in place
of its type, which `help` shows. A call without `->` returns nothing. `(…)` stands for the parameters and result of the
call without `_async`.
"""

SECTIONS = {
    "Publish and subscribe": (
        "rtmw",
        "Publisher Subscriber PatternSubscriber Sample Loan ANY Reliability Profile profiles PublisherStats "
        "SubscriberStats PatternStats Latency",
    ),
    "Numbers of a size": ("rtmw", "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64"),
    "Wait": ("rtmw", "WaitSet Listener"),
    "Ask and answer": ("rtmw", "Service Client Stream ServiceStats ClientStats"),
    "Logging": ("rtmw", "LogHandler LogLine LogHandlerStats"),
    "Domains": ("rtmw", "Domain"),
    "Record and replay": ("rtmw", "Recorder RecorderStats Recording Recordings table Replay ReplayStats"),
    "Keep": (
        "rtmw",
        "Log LogRecord LogRecords LogBatch LogBatches Start Appended Durability LogStats PersistQueue Retention Cursor",
    ),
    "Transfer": (
        "rtmw",
        "Sender Inbox Transfer Transaction Letter Part File Delivery Level TransferState TransferId Progress Savepoint "
        "TransferEvent SenderStats InboxStats",
    ),
    "Give orders through a relay": ("rtmw", "Agent Dispatch DispatchState Order"),
    "Real-time programs": ("rtmw", "realtime"),
    "Spark": ("rtmw", "spark"),
    "Look into a domain: `rtmw.observe`": ("rtmw.observe", ""),
}
"""A heading, the module, and the names in it; without names, all that the module exports. Errors come last."""


TYPES = "Numbers of a size"
"""The names under this heading share a line; functions of a module as a whole have a line each, and no heading."""
TYPES_TEXT = "Each holds numbers of the size in its name: [types.md](types.md#members)."

WIDTH = 118
MADE = {"LogRecords", "LogBatch", "LogBatches", "Appended", "Letter", "Dispatch", "Order", "Savepoint"}
"""Classes of which rtmw makes the objects, beside those whose docstring says so: no program calls them."""
INTERNAL = {
    "Client.closed_error",
    "Domain.adopt",
    "Domain.is_usable",
    "Domain.region",
    "LogBatch.rows",
    "realtime.memory_not_locked",
    "Recording.as_published",
    "Recording.compresses_messages",
    "Recording.described",
    "Recording.lacks_end",
    "Recording.read_stored",
    "Retention.numbers",
}
"""What modules of rtmw use of each other, though its name has no underscore."""
SHORT = 8
"""A line of at most so many words is shown each time."""
WHOLE: dict[str, bool] = {"break_long_words": False, "break_on_hyphens": False}
STATEMENTS = {
    "__enter__": "`with`",
    "__iter__": "`for`",
    "__aiter__": "`async for`",
    "__aenter__": "`async with`",
    "__len__": "`len`",
    "__getitem__": "`[]`",
    "__buffer__": "`memoryview`",
}


def resolved(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if isinstance(found, griffe.Alias) else found


def page() -> str:
    """The whole page. Of compiled modules their stubs are read, whether the modules are imported or not."""
    package = griffe.load("rtmw", search_paths=[str(ROOT)], resolve_aliases=True, allow_inspection=False)
    lines = [HEAD]
    told: set[str] = set()
    homes: dict[str, str] = {}
    for heading, (module, names) in SECTIONS.items():
        lines.append(f"## {heading}\n")
        home = resolved(package if module == "rtmw" else package[module.removeprefix("rtmw.")])
        told.add(module.rpartition(".")[2])
        rows: list[str] = []
        for name in names.split() or [str(name) for name in home.exports or ()]:
            found = resolved(home[name])
            if found.is_module and not names and name in found.members:
                found = resolved(found[name])  # a function in the file that has its name
            if heading == TYPES:
                rows.append(f"`{module}.{name}`")
            elif found.is_function and not names:
                rows.append(row(f"{module.removeprefix('rtmw.')}.{name}", found))
            else:
                lines += entry(f"{module}.{name}", found, homes)
            told.add(name)
        if heading == TYPES:
            rows = [TYPES_TEXT, "", bullet(", ".join(rows))]
        elif rows:
            lines.append(f"### Functions of `{module}`\n")
        lines += [*rows, ""]
    lines.append("## Errors\n")
    for name, error in package["errors"].members.items():
        if not error.is_alias and error.is_class and not name.startswith("_"):
            bases = ", ".join(f"`{base}`" for base in resolved(error).bases)
            lines.append(bullet(f"`{name}` ({bases}): {one_line(error)}"))
            told.add(name)
    missing = {str(name) for name in package.exports or ()} - told - {"__version__"}
    if missing:
        raise SystemExit(f"Say in SECTIONS of {Path(__file__).name} where these belong: {', '.join(sorted(missing))}")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def entry(name: str, found: griffe.Object, homes: dict[str, str]) -> Iterator[str]:
    """What is said of one public name. `homes` has the lines of members that were shown before, with their names."""
    yield f"### `{name}`\n"
    made = found.all_members.get("__init__") if found.is_class else found if found.is_function else None
    if made is not None and is_called(found):
        text = f"{name.removeprefix('rtmw.')}{signature(resolved(made))}"
        yield f"```python\n{textwrap.fill(text, WIDTH, subsequent_indent='    ', **WHOLE)}\n```\n"
    yield docstring(found) + "\n"
    if found.is_class or found.is_module:
        uses = [word for method, word in STATEMENTS.items() if method in found.all_members]
        if uses:
            yield f"Works with {', '.join(uses)}.\n"
        yield from members(name, found, homes)


def is_called(found: griffe.Object) -> bool:
    """Not for what rtmw makes: rows of numbers, whose fields are listed, what says who makes it, and MADE."""
    rows = any("dataclass" in str(one.value) for one in getattr(found, "decorators", ()))
    return not rows and "Made by" not in docstring(found) and found.name not in MADE


def members(name: str, home: griffe.Object, homes: dict[str, str]) -> Iterator[str]:
    """A line for each public member that a class or a module makes itself or inherits from ours.

    Members without a text share a line, but for constants that the docstring of `home` names. A member that an earlier
    name has with the same text is only named.
    """
    plain: list[str] = []
    again: dict[str, list[str]] = {}
    for member, one in home.all_members.items():
        if member.startswith("_") or (home.is_module and not is_exported(home, member, one)):
            continue
        if f"{home.name}.{member}" in INTERNAL:
            continue
        target = resolved(one)
        same = home.all_members.get(member.removesuffix("_async"))
        if target.is_function and member.endswith("_async") and same is not None:
            line = row(member, target, resolved(same))
        else:
            line = row(member, target)
        if not one_line(one):
            if member.isupper() and re.search(rf"\b{member}\b", docstring(home)):
                continue
            plain.append(" ".join(line.removeprefix("- ").split()))
            continue
        first = homes.setdefault(line, name)
        if first != name and len(line.split()) > SHORT:
            again.setdefault(first, []).append(f"`{member}`")
            continue
        if plain:
            yield bullet(", ".join(plain))
            plain = []
        yield line
    if plain:
        yield bullet(", ".join(plain))
    for first, found in again.items():
        yield bullet(f"As of `{first}`: {', '.join(found)}.")
    yield ""


def row(name: str, found: griffe.Object, like: griffe.Object | None = None) -> str:
    """The line of a member: its name and type, and what it does. `like`: the function without `_async`."""
    text = one_line(found)
    if found.is_function:
        name += "(…)" if like is not None and signature(like) == signature(found) else signature(found)
    elif found.is_attribute and getattr(found, "annotation", None):
        name += f": {found.annotation}"
    return bullet(f"`{name}`" + (f": {text}" if text else ""))


def bullet(text: str) -> str:
    return textwrap.fill(f"- {text}", WIDTH, subsequent_indent="  ", **WHOLE)


def is_exported(module: griffe.Object, name: str, member: griffe.Object | griffe.Alias) -> bool:
    return name in [str(one) for one in module.exports] if module.exports else not member.is_alias


def signature(function: griffe.Object) -> str:
    """Parameters and result, without the name. A default stands in place of the type."""
    assert isinstance(function, griffe.Function)
    shown = copy(function)
    shown.parameters = griffe.Parameters(*map(copy, function.parameters))
    for parameter in shown.parameters:
        if parameter.default is not None and not parameter.kind.value.startswith("variadic"):
            parameter.annotation = None
    text = shown.signature().removeprefix(function.name).replace("(/, ", "(").replace("(/)", "()")
    return text.removesuffix(" -> None")


def docstring(found: griffe.Object) -> str:
    """From the source; of what is written in C, from the built module."""
    if found.docstring is not None:
        return found.docstring.value.strip()
    if ".shm._core." not in found.path:
        return ""
    value: object = importlib.import_module("rtmw.shm._core")
    for name in found.path.rpartition("._core.")[2].split("."):
        value = getattr(value, name)
    return "\n".join(line.strip() for line in (getattr(value, "__doc__", None) or "").strip().splitlines())


def one_line(found: griffe.Object | griffe.Alias) -> str:
    """The docstring without its examples, which stand indented."""
    return " ".join(re.sub(r"^ {4}.*$", "", docstring(resolved(found)), flags=re.MULTILINE).split())


if __name__ == "__main__":
    PAGE.write_text(page())
