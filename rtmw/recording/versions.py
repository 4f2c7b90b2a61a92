"""Versions of a type in recordings: the structures that messages under one type name have, one after the other.

Versions of a type are numbered from 1 in the order of their first messages. `rtmw.columns.merged_versions` makes one
set of columns of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from rtmw.types.checks import shown_name

if TYPE_CHECKING:
    from rtmw.recording.contents import Chunk

_MOST: Final = 20
LATEST: Final = 0
"""Stands for the number of the last version."""


class Sighting(NamedTuple):
    """The messages of one channel."""

    type_name: str
    description: bytes | None
    """None: the type has no members, or could not be read."""
    problem: str
    """Why the type could not be read; "": it could."""
    topic: str
    messages: int
    first_ns: int
    """When the first message was logged, or the first of its chunk; 0 without messages."""


@dataclass(frozen=True, slots=True)
class Version:
    """One structure of the messages of a type."""

    number: int
    """Number of the version, from 1, in the order of the first messages."""
    of: int
    """How many versions the type has."""
    type_name: str
    description: bytes | None
    problem: str
    topics: tuple[str, ...]
    messages: int
    first_ns: int

    def has(self, type_name: str, description: bytes | None, problem: str) -> bool:
        """Whether messages of this type belong to this version."""
        is_named_so = dds_name(type_name) == dds_name(self.type_name)
        return is_named_so and (description, problem) == (self.description, self.problem)

    def __str__(self) -> str:
        which = f" version {self.number}" if self.of > 1 else ""
        first = datetime.fromtimestamp(self.first_ns // 10**9, UTC)
        since = f" since {first:%Y-%m-%dT%H:%M:%S}" if self.of > 1 and self.messages else ""
        count = f"{self.messages} message{'' if self.messages == 1 else 's'}"
        return f"{shown_name(self.type_name)}{which} ({count} on {some(self.topics)}{since})"


def dds_name(name: str) -> str:
    """`plant.Speed`, `plant::Speed` and `plant/Speed` are one name."""
    return name.replace("::", ".").replace("/", ".")


def seen_in(chunks: Iterable[Chunk]) -> dict[int, tuple[int, int]]:
    """Returns for each channel how many messages it has, and when the first one was logged, or the first one of its
    chunk."""
    found: dict[int, tuple[int, int]] = {}
    for chunk in chunks:
        for number, count in chunk.counts.items():
            messages, first_ns = found.get(number, (0, chunk.start_ns))
            found[number] = messages + count, min(first_ns, chunk.start_ns)
    return found


def versions_of(sightings: Iterable[Sighting]) -> list[Version]:
    """The versions of all types that were seen, by name; those without messages only if none has any."""
    seen = [*sightings]
    return numbered([one for one in seen if one.messages] or seen)


def numbered(sightings: Iterable[Sighting]) -> list[Version]:
    """The versions of all types that were seen, by name; those without messages come last."""
    groups: dict[tuple[str, bytes | None, str], list[Sighting]] = {}
    for one in sorted(sightings, key=lambda one: (not one.messages, one.first_ns)):
        groups.setdefault((dds_name(one.type_name), one.description, one.problem), []).append(one)
    by_type: dict[str, list[list[Sighting]]] = {}
    for (name, _, _), group in groups.items():
        by_type.setdefault(name, []).append(group)
    return [
        _version(number, len(versions), group)
        for _, versions in sorted(by_type.items())
        for number, group in enumerate(versions, 1)
    ]


def version_number(written: int | str) -> int:
    """The number of a version, or LATEST. Raises ValueError, which says what was expected."""
    text = str(written).lower()
    if text == "latest":
        return LATEST
    if isinstance(written, bool) or not text.isdecimal() or int(text) == 0:
        raise ValueError("the number of a version, from 1, or latest")
    return int(text)


def chosen_version(versions: Sequence[Version], number: int) -> Version:
    """One of the versions of a type. Raises ValueError where they are of several types, or there is no such one."""
    names = sorted({dds_name(version.type_name) for version in versions})
    if len(names) != 1:
        raise ValueError(
            f"type_version chooses among the versions of one type, and {len(names)} are meant: {some(names)}"
        )
    wanted = number or len(versions)
    for version in versions:
        if version.number == wanted:
            return version
    raise ValueError(f"there is no version {number}; there are {some(versions)}")


def _version(number: int, of: int, group: Sequence[Sighting]) -> Version:
    first = group[0]
    topics = tuple(sorted({one.topic for one in group}))
    messages = sum(one.messages for one in group)
    return Version(number, of, first.type_name, first.description, first.problem, topics, messages, first.first_ns)


def some(names: Sequence[object]) -> str:
    """A list for an error: twenty of them at most."""
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(map(str, names[:_MOST])) + more or "none"
