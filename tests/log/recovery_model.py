"""The rules of the log's recovery as a model, so small that every power cut of it can be tried.

A record takes one cell, a segment has three. The writer and the recovery are generators that stop after each call of
the system. There the power may be cut: of what was not synced, any subset is on the disk, and a write may be torn. Or
the process alone ends: then all that it wrote is there, synced or not. rtmw/log/ does with bytes what is done here
with cells. Each rule in `RULES` is needed: without it some cut loses a record or invents one, or refuses a good log.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

CELLS = 3
START = -1
"""In place of a base: the file `start`."""
TORN = "torn"

RULES = (
    "sync before the answer",
    "watermark only of what was synced",
    "two slots of the watermark",
    "sync a new segment before its name",
    "folder sync at a roll",
    "folder sync before the seal",
    "batches are whole",
    "zero behind a cut",
    "sync what was found",
    "mark only behind the sync",
    "a clean mark is taken back before a write",
    "the reach is durable before what needs it",
)

TRIM_RULES = (
    "the start is durable before a segment goes",
    "two slots of the start",
    "what lies before the start is no part of the log",
)


@dataclass(frozen=True)
class Record:
    lsn: int
    life: int
    """Who appended it: two records of one LSN are told apart by it, by the checker and not by recovery."""
    more: bool
    """The next record belongs to the same batch."""


@dataclass(frozen=True)
class Mark:
    number: int
    durable: int
    sealed: bool = False
    clean: bool = False
    """Nothing was written behind it."""
    reach: int = CELLS
    """Of the cells of its segment: nothing was ever written behind so many."""


Value = Record | Mark | str | None
Place = tuple[int, str, int]
"""Base of the segment, `cell` or `mark`, index."""


class Damage(Exception):
    """Recovery refuses the log."""


@dataclass(frozen=True)
class Disk:
    content: frozenset[tuple[Place, Value]] = frozenset()
    names: frozenset[int] = frozenset()
    writes: tuple[tuple[Place, Value], ...] = ()
    """Not synced yet."""
    renames: tuple[int, ...] = ()
    """Names that came, by their base; and ~base of those that went."""

    def write(self, place: Place, value: Value) -> Disk:
        return Disk(self.content, self.names, (*self.writes, (place, value)), self.renames)

    def sync(self, base: int) -> Disk:
        mine = [(place, value) for place, value in self.writes if place[0] == base]
        others = tuple((place, value) for place, value in self.writes if place[0] != base)
        return Disk(frozenset((dict(self.content) | dict(mine)).items()), self.names, others, self.renames)

    def rename(self, base: int) -> Disk:
        return Disk(self.content, self.names, self.writes, (*self.renames, base))

    def unlink(self, base: int) -> Disk:
        return Disk(self.content, self.names, self.writes, (*self.renames, ~base))

    def _names(self, count: int) -> frozenset[int]:
        """After so many of the changes."""
        names = set(self.names)
        for change in self.renames[:count]:
            names = names | {change} if change >= 0 else names - {~change}
        return frozenset(names)

    def sync_folder(self) -> Disk:
        return Disk(self.content, self._names(len(self.renames)), self.writes)

    def view(self) -> tuple[dict[Place, Value], list[int]]:
        """What programs read."""
        return dict(self.content) | dict(self.writes), sorted(self._names(len(self.renames)))

    def cuts(self) -> Iterator[Disk]:
        """What a power cut may leave."""
        for count in range(len(self.renames) + 1):
            for fate in itertools.product("-+t", repeat=len(self.writes)):
                content = dict(self.content)
                for (place, value), what in zip(self.writes, fate, strict=True):
                    if what != "-" and content.get(place) != value:  # of the same bytes, either half is right
                        content[place] = value if what == "+" else TORN
                yield Disk(frozenset(content.items()), self._names(count))


Steps = Generator[tuple[Disk, int], None, tuple[Disk, int]]
"""After each call of the system the disk, and the end that was answered or shown to readers until then."""


@dataclass
class Log:
    """One life of the log. `without`: the rule that it breaks."""

    disk: Disk
    life: int
    without: str = ""
    marks_all: bool = True
    """Each batch takes a mark along; else only one that needs a longer reach, and batches of several records."""
    base: int = 0
    end: int = 0
    number: int = 0
    reach: int = CELLS
    """That of the newest durable mark. A batch needs one of its own as soon as it is longer: none is given ahead."""
    start: int = 0
    appended: list[Record] = field(default_factory=list[Record])

    def keeps(self, rule: str) -> bool:
        assert rule in RULES + TRIM_RULES
        return rule != self.without

    def _mark(self, durable: int, sealed: bool = False, clean: bool = False, reach: int = CELLS) -> None:
        self.number += 1
        slot = self.number % len(self._slots())
        self.disk = self.disk.write((self.base, "mark", slot), Mark(self.number, durable, sealed, clean, reach))

    def _slots(self) -> range:
        return range(2 if self.keeps("two slots of the watermark") else 1)

    def create(self) -> None:
        for slot in range(2):
            self.disk = self.disk.write((START, "mark", slot), Mark(0, 0))
        for slot in self._slots():
            self.disk = self.disk.write((0, "mark", slot), Mark(0, 0))
        self.disk = self.disk.sync(START).sync(0).rename(0).sync_folder()

    def _write_start(self, start: int) -> Steps:
        number = self._newest(START, self.disk.view()[0]).number + 1
        slot = number % 2 if self.keeps("two slots of the start") else 0
        self.disk = self.disk.write((START, "mark", slot), Mark(number, start))
        if not self.keeps("two slots of the start"):
            self.disk = self.disk.write((START, "mark", 1), Mark(number, start))
        yield self.disk, self.end
        self.disk = self.disk.sync(START)
        yield self.disk, self.end
        return self.disk, self.end

    def trim(self, start: int) -> Steps:
        """The segments before `start` go; the last of them is filled with zeros, for it becomes a spare."""
        is_first = self.keeps("the start is durable before a segment goes")
        if is_first:
            yield from self._write_start(start)
        gone = [base for base in self.disk.view()[1] if base < start]
        for base in gone:
            self.disk = self.disk.unlink(base)
            yield self.disk, self.end
        for cell in range(CELLS):
            self.disk = self.disk.write((gone[-1], "cell", cell), None)
            yield self.disk, self.end
        if not is_first:
            yield from self._write_start(start)
        return self.disk, self.end

    def _roll(self) -> Steps:
        new, old = self.end, self.base
        for slot in self._slots():
            self.disk = self.disk.write((new, "mark", slot), Mark(0, new))
            yield self.disk, self.end
        if self.keeps("sync a new segment before its name"):
            self.disk = self.disk.sync(new)
            yield self.disk, self.end
        self.disk = self.disk.rename(new)
        yield self.disk, self.end
        order = ["folder", "seal"] if self.keeps("folder sync before the seal") else ["seal", "folder"]
        for what in order:
            if what == "seal":
                self._mark(self.end, sealed=True)
                self.disk = self.disk.sync(old)
            elif self.keeps("folder sync at a roll"):
                self.disk = self.disk.sync_folder()
            yield self.disk, self.end
        self.base, self.number, self.reach = new, 0, CELLS
        return self.disk, self.end

    def append(self, count: int) -> Steps:
        if self.end + count > self.base + CELLS:
            yield from self._roll()
        reach = self.end + count - self.base
        if reach > self.reach and self.keeps("the reach is durable before what needs it"):
            self._mark(self.end, reach=reach)
            yield self.disk, self.end
            self.disk = self.disk.sync(self.base)
            yield self.disk, self.end
        whole = self.keeps("watermark only of what was synced")
        marks = self.marks_all or reach > self.reach or count > 1
        if marks:
            self._mark(self.end if whole else self.end + count, reach=reach)
            yield self.disk, self.end
        for n in range(count):
            record = Record(self.end + n, self.life, more=n + 1 < count)
            self.appended.append(record)
            self.disk = self.disk.write((self.base, "cell", record.lsn - self.base), record)
            yield self.disk, self.end
        if self.keeps("sync before the answer"):
            self.disk = self.disk.sync(self.base)
        yield self.disk, self.end
        self.end, self.reach = self.end + count, reach if marks else self.reach
        yield self.disk, self.end
        return self.disk, self.end

    def _scan(self, base: int, view: dict[Place, Value]) -> int:
        """The end of the whole batches that begin at `base`."""
        whole = base
        for lsn in range(base, base + CELLS):
            record = view.get((base, "cell", lsn - base))
            if not isinstance(record, Record) or record.lsn != lsn:
                break
            if not record.more or not self.keeps("batches are whole"):
                whole = lsn + 1
        return whole

    def recover(self, to_write: bool = True) -> Steps:
        """Raises Damage. Until it ends it shows nothing to readers: -1."""
        view, bases = self._from_start()
        unsealed: list[tuple[int, int]] = []
        for base, successor in itertools.pairwise(bases):
            newest = self._newest(base, view)
            end = newest.durable if newest.sealed else self._scan(base, view)
            if end != successor:
                raise Damage(f"segment {base} ends at {end}, and the next one begins at {successor}")
            if not newest.sealed:
                unsealed.append((base, newest.number))
        self.base = bases[-1]
        newest = self._newest(self.base, view)
        if newest.sealed:
            raise Damage(f"the segment behind {self.base} is missing")
        self.end = self._scan(self.base, view)
        if self.end < newest.durable:
            raise Damage(f"bad record at {self.end}, durable up to {newest.durable}")
        self.number = newest.number
        if newest.clean and newest.durable == self.end:
            if to_write and self.keeps("a clean mark is taken back before a write"):
                self._mark(self.end)
                yield self.disk, -1
                self.disk = self.disk.sync(self.base)
            yield self.disk, self.end
            return self.disk, self.end
        yield from self._make_end_durable(view, newest)
        for base, number in unsealed:
            successor = min(other for other in bases if other > base)
            mark = Mark(number + 1, successor, sealed=True)
            self.disk = self.disk.write((base, "mark", mark.number % len(self._slots())), mark).sync(base)
            yield self.disk, -1
        self._mark(self.end, clean=not to_write)
        yield self.disk, -1
        if self.keeps("sync what was found"):
            self.disk = self.disk.sync(self.base)
        yield self.disk, self.end
        return self.disk, self.end

    def _from_start(self) -> tuple[dict[Place, Value], list[int]]:
        """What is read, and the segments of the log."""
        view, bases = self.disk.view()
        self.start = self._newest(START, view).durable
        if self.keeps("what lies before the start is no part of the log"):
            bases = [base for base in bases if base >= self.start]
            if bases[:1] != [self.start]:
                raise Damage(f"the log begins at {self.start}, and its segments with {bases[:1]}")
        return view, bases

    def _make_end_durable(self, view: dict[Place, Value], newest: Mark) -> Steps:
        """What was found becomes durable, and nothing is left behind its end."""
        for lsn in range(newest.durable, self.end):  # written anew: a sync that failed has left pages that look clean
            self.disk = self.disk.write((self.base, "cell", lsn - self.base), view[self.base, "cell", lsn - self.base])
        if self.keeps("zero behind a cut"):
            for cell in range(self.end - self.base, newest.reach):
                if view.get((self.base, "cell", cell)) is not None:
                    self.disk = self.disk.write((self.base, "cell", cell), None)
        yield self.disk, -1
        self.disk = self.disk.sync_folder()
        if self.keeps("sync what was found") and self.keeps("mark only behind the sync"):
            self.disk = self.disk.sync(self.base)
        yield self.disk, -1
        return self.disk, self.end

    def _newest(self, base: int, view: dict[Place, Value]) -> Mark:
        marks = [view.get((base, "mark", slot)) for slot in range(2)]
        whole = [mark for mark in marks if isinstance(mark, Mark)]
        if not whole:
            raise Damage(f"segment {base} has no watermark")
        return max(whole, key=lambda mark: mark.number)

    def records(self) -> list[Record]:
        """All that a reader finds."""
        view, bases = self._from_start()
        found: list[Record] = []
        for base in bases:
            for cell in range(CELLS):
                record = view.get((base, "cell", cell))
                if isinstance(record, Record) and record.lsn == base + cell and record.lsn < self.end:
                    found.append(record)
        return found
