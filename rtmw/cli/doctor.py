"""`rtmw doctor`: do the books of the domain balance, who is attached, and is this machine fit for real time?"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rtmw import observe, realtime, shm
from rtmw.cli.common import look_at, open_to
from rtmw.cli.environment import CHECK_COLUMNS, Check, add_strict, checks, status_of, verdict
from rtmw.cli.parsing import runs
from rtmw.cli.terminal import Cell, Table, counted, duration, say, show, show_json, size
from rtmw.cli.values import to_plain
from rtmw.domain import domain_for_tool
from rtmw.errors import DomainNotFound
from rtmw.observe import Books, Holding, TableUse
from rtmw.observe.books import PAGE_BYTES
from rtmw.qos import Reliability

MOST_HOLDINGS = 5
"""Topics that are named as those that hold most."""
NEARLY_FULL = 0.9
OLD_S = 600.0
"""An order that waits for so long is told."""
SKEW_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, doctor)
    add_strict(parser)
    parser.add_argument("--fix", action="store_true", help="first sweep after the dead and reclaim what nobody uses")


@dataclass(frozen=True)
class _Findings:
    """The findings about a domain."""

    books: Books
    tables: tuple[TableUse, ...]
    holdings: list[Holding]
    mapped: int
    """Bytes that each of its processes maps."""
    group: int | None
    """The group whose users may attach; None: one user's programs."""


@dataclass(frozen=True)
class Examination:
    """What the doctor says about a domain and this machine."""

    number: int
    findings: _Findings | None
    """What was found in the domain; None: there is no domain."""
    machine: list[Check]
    real_time: list[Check]
    orders: list[Check]
    leftovers: list[str]
    told: dict[str, Any]
    """The faults and remarks, counted."""

    @classmethod
    def of(cls, number: int, *, fix: bool = False) -> Examination:
        findings = _examine(number, fix)
        machine, leftovers = checks(), _leftovers(fix)
        real_time = fitness(findings.mapped if findings else None)
        full = [table for table in findings.tables if table.share_of_all >= NEARLY_FULL] if findings else []
        problems = findings.books.problems if findings else ()
        orders = _relay_checks(number)
        told = verdict([*machine, *real_time, *orders], len(problems), (0 if fix else len(leftovers)) + len(full))
        return cls(number, findings, machine, real_time, orders, leftovers, told)

    def document(self) -> dict[str, Any]:
        """Returns all findings in the form that programs read (`--json`)."""
        findings = self.findings
        found = {
            "books": findings.books if findings else None,
            "tables": findings.tables if findings else (),
            "group": shm.group_name(findings.group) if findings and findings.group is not None else None,
            "holdings": [_record(holding) for holding in findings.holdings] if findings else [],
            "machine": self.machine,
            "real_time": self.real_time,
            "relay": self.orders,
            "domains": shm.domains(),
            "leftovers": self.leftovers,
        }
        balanced = not findings.books.problems if findings else None
        return {"domain": self.number, "balanced": balanced, **self.told, **found}


def doctor(arguments: argparse.Namespace) -> int:
    """Print the examination, and how many faults and remarks it has; the status is that of `status_of`. Books that do
    not balance are faults. A domain that is not there has none."""
    found = Examination.of(arguments.domain, fix=arguments.fix)
    if arguments.json:
        show_json(found.document())
        return status_of(found.told, arguments.strict)
    show(_checks_table("This machine", found.machine))
    show(_checks_table("For real time", found.real_time))
    if found.orders:
        show(_checks_table("Relay", found.orders))
    say(f"Domains of this machine: {', '.join(str(number) for number in shm.domains()) or 'none'}")
    for name in found.leftovers:
        say(f"{name} was left by a program that died; {'removed' if arguments.fix else '--fix removes it'}.")
    if found.findings is None:
        say(f"Domain {arguments.domain} does not exist: there are no books to check.")
    else:
        _show_findings(arguments.domain, found.findings)
    say(f"{counted(found.told['faults'], 'fault')}, {counted(found.told['remarks'], 'remark')}.")
    return status_of(found.told, arguments.strict)


def _examine(number: int, fix: bool) -> _Findings | None:
    """Examines the domain, and mends it if `fix`. None: there is no domain."""
    try:
        with domain_for_tool(number) if fix else look_at(number) as domain:
            books = observe.examine(domain, fix)
            held = observe.holdings(observe.topics(domain), books)
            group = shm.group_of(number)
            return _Findings(books, observe.tables(domain, books), held, domain.region.mapped_bytes, group)
    except DomainNotFound:
        return None


def _relay_checks(number: int) -> list[Check]:
    """Returns the checks of a relay that serves this domain; none without a relay."""
    from rtmw.observe.services import relay

    try:
        with look_at(number) as domain:
            said = relay(domain)
    except DomainNotFound:
        return []
    if said is None:
        return []
    found = f"process {said.pid}, {counted(sum(one.waiting for one in said.agents), 'order')} waiting"
    found += f", {counted(said.rows.get('ALARM', 0), 'alarm')}"
    still = f"it has said nothing for {duration(said.silent)}: rtmw node doctor" if said.stands_still else ""
    checks = [Check("relay", found, still), *([Check("its disk", "full", said.full)] if said.full else [])]
    for one in said.agents:
        if one.waiting and one.oldest > OLD_S:
            advice = f"rtmw relay queue {one.name} says why"
            checks.append(Check(f"orders for {one.name}", f"the oldest is {duration(one.oldest)} old", advice, True))
        if one.skew is not None and abs(one.skew) > SKEW_S:
            advice = "set the clock of one of the two: times on record do not fit"
            checks.append(Check(f"stamps of {one.name}", f"{one.skew:+.0f} s from this host", advice, True))
    return checks


def _record(holding: Holding) -> dict[str, Any]:
    """Returns a holding in the form that programs read; of the slowest subscriber it has who it is and how far
    behind."""
    slowest = holding.slowest
    who = {"pid": slowest.pid, "process": slowest.process, "behind": slowest.behind} if slowest else None
    return {**to_plain(holding), "slowest": who}


def _leftovers(fix: bool) -> list[str]:
    """Shared memory of regions that were never finished; with `fix`, it is removed."""
    return shm.remove_leftovers() if fix else shm.leftovers()


def _checks_table(title: str, found: list[Check]) -> Table:
    return Table(title, CHECK_COLUMNS, [check.row() for check in found])


def _show_findings(number: int, findings: _Findings) -> None:
    books = findings.books
    columns = ("pid", "process", "alive", "publishers", "subscribers", "loaned", "held")
    rows = [
        (p.pid, p.process, "yes" if p.alive else "no", p.publishers, p.subscribers, p.loaned, p.held)
        for p in books.participants
    ]
    who = f"{counted(len(rows), 'participant')}{open_to(findings.group)}"
    show(Table(f"Domain {number}, region {books.version}: {who}", columns, rows))
    show(tables_table(findings.tables))
    if any(table.reserved for table in findings.tables):
        say("Reserved: for priorities 4 to 7 alone, of what RELIABLE subscribers have not read and of loans.")
    for table in findings.tables:
        if table.share_of_all >= NEARLY_FULL:
            say(f"Nearly full: {table.name}. {_advice(table.name, findings.holdings)}")
    if findings.holdings:
        show(holdings_table(findings.holdings))
    show(books_table(books))
    for line in books.repaired:
        say(f"Repaired: {line}")
    if books.reclaimed:
        say(f"Given back: {counted(books.reclaimed, 'descriptor')} that no queue and nobody held.")
    for line in books.problems:
        say(f"Problem: {line}")
    say("The books do not balance." if books.problems else "The books balance.")


def tables_table(tables: Sequence[TableUse]) -> Table:
    """How full each is. Kept: what nobody needs any more, and the next message that needs room gets."""
    rows = [(table.name, *_amounts(table), f"{100 * table.share:.0f} %") for table in tables]
    return Table("Tables", ("table", "used", "kept", "of", "reserved", "full"), rows)


def _amounts(table: TableUse) -> tuple[Cell, ...]:
    amounts = (table.used, table.kept or None, table.size, table.reserved or None)
    return tuple(size(one) if one is not None else None for one in amounts) if table.name == "pool" else amounts


def _advice(table: str, holdings: Sequence[Holding]) -> str:
    if table in ("descriptors", "pool"):
        return f"{_cause(holdings)} A domain that is made with a larger pool has more."
    if table == "participants":
        return "No further program can attach until one ends."
    if table == "types":
        return (
            "A new type gets the slot of one that nobody uses; if all are used, none fits until a program closes some."
        )
    return "A domain that is made with a larger pool has more."


def _cause(holdings: Sequence[Holding]) -> str:
    """The topic that holds most, who does not read it, and the same of what cannot give way."""
    if not holdings:
        return "No topic holds messages: they are loaned, or kept as samples, by the programs above."
    first, needed = holdings[0], next((one for one in holdings if _is_needed(one)), None)
    if needed is first:
        return f"Topic {first.topic} holds most, for {_slowest(first)}; {_STAYS}"
    said = f"Topic {first.topic} holds most, for {_slowest(first) or 'subscribers to come'}; {_gives_way(first)}"
    return f"{said} Topic {needed.topic} has messages for {_slowest(needed)}; {_STAYS}" if needed else said


def _gives_way(holding: Holding) -> str:
    if not holding.is_history:
        return "the oldest gives way."
    if holding.publishers:
        return "history keeps it while its publisher is there, and nothing of it gives way."
    clear = f"`rtmw topic clear {holding.topic}` lets it go now."
    return f"history keeps it, its publisher is gone, and it gives way to the same or a higher priority. {clear}"


_STAYS = "it is RELIABLE, so its publishers wait, and nothing of it gives way."


def _is_needed(holding: Holding) -> bool:
    return holding.slowest is not None and holding.slowest.reliability is Reliability.RELIABLE


def holdings_table(holdings: Sequence[Holding]) -> Table:
    """The topics that hold most of the memory, and who is slowest to read them."""
    rows = [
        (one.topic, one.messages, size(one.bytes), f"{100 * one.share:.1f} %", _slowest(one))
        for one in holdings[:MOST_HOLDINGS]
    ]
    title = "Topics that hold most memory"
    return Table(title, ("topic", "messages", "in the pool", "share", "slowest subscriber"), rows)


def _slowest(holding: Holding) -> str | None:
    slowest = holding.slowest
    return f"{observe.program(slowest.process)} ({slowest.pid}): {slowest.behind} behind" if slowest else None


def books_table(books: Books) -> Table:
    """Returns a table of where every descriptor and page is."""
    rows: list[tuple[str, int, str]] = [
        ("descriptors free", books.descriptors_free, ""),
        ("descriptors loaned", books.descriptors_loaned, ""),
        ("descriptors queued", books.descriptors_queued, ""),
        ("descriptors held", books.descriptors_held, ""),
        ("descriptors in all", books.descriptors, ""),
        ("pages used", books.pages_used, size(books.pages_used * PAGE_BYTES)),
        ("pages kept for reuse", books.pages_kept, size(books.pages_kept * PAGE_BYTES)),
        ("pages in all", books.pages, size(books.pages * PAGE_BYTES)),
    ]
    return Table("Books", ("what", "number", "size"), rows)


# ---- is this machine fit for real time? docs/realtime.md says why ----

CPUS = Path("/sys/devices/system/cpu")
CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
THROTTLE = Path("/proc/sys/kernel/sched_rt_runtime_us")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
QUICK_CLOCKS = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")
"""Read without a system call."""


def fitness(mapped_bytes: int | None) -> list[Check]:
    """All checks; what they advise is a remark, since rtmw works without. `mapped_bytes`: what `lock_memory` of the
    domain would lock; None without a domain."""
    found = [
        _cores(),
        _preemption(),
        _governors(),
        _throttling(),
        _priority(),
        _memory(mapped_bytes),
        _swap(),
        _huge_pages(),
        _clock(),
    ]
    return [replace(check, remark=True) for check in found]


def _read(path: Path) -> str:
    """The content of a file of the kernel; empty where there is no such file."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _cores() -> Check:
    mine, isolated = sorted(os.sched_getaffinity(0)), _read(CPUS / "isolated")
    found = f"{len(mine)} for this process, isolated: {isolated or 'none'}"
    few = len(mine) < 2
    return Check("cores", found, "a subscriber that spins takes the core from the publisher; use spin=0" if few else "")


def _preemption() -> Check:
    if _read(Path("/sys/kernel/realtime")) == "1":
        return Check("preemption", "PREEMPT_RT")
    return Check("preemption", "no PREEMPT_RT", "for bounds below a millisecond, boot a kernel with PREEMPT_RT")


def _governors() -> Check:
    found = {_read(path) for path in CPUS.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {""}
    slow = found - {"performance"}
    advice = "cores that sleep deep wake late; `cpupower frequency-set -g performance`" if slow else ""
    return Check("frequency governor", ", ".join(sorted(found)) or "none; the clock of the cores is not ours", advice)


def _throttling() -> Check:
    runtime = _read(THROTTLE)
    if runtime in ("", "-1"):
        return Check("real-time throttling", "off")
    advice = "a SCHED_FIFO thread that never sleeps is stopped for a part of each second; use spin=0, or write -1 there"
    return Check("real-time throttling", f"{runtime} of 1000000 µs", advice)


def _priority() -> Check:
    limit = realtime.priority_limit()
    if os.geteuid() == 0 or limit > 0:
        return Check("SCHED_FIFO", "allowed" if os.geteuid() == 0 else f"up to {limit}")
    return Check("SCHED_FIFO", "not allowed", "rtprio in /etc/security/limits.conf, or LimitRTPRIO=99 in the unit")


def _memory(mapped_bytes: int | None) -> Check:
    limit = realtime.memory_limit()
    found = "no limit" if limit is None else f"up to {size(limit)}"
    short = limit is not None and mapped_bytes is not None and limit < mapped_bytes and os.geteuid() != 0
    advice = f"lock_memory needs {size(mapped_bytes or 0)}; memlock in limits.conf, or LimitMEMLOCK=" if short else ""
    return Check("locked memory", "allowed" if os.geteuid() == 0 else found, advice)


def _swap() -> Check:
    areas = len(_read(Path("/proc/swaps")).splitlines()) - 1
    if areas < 1:
        return Check("swap", "none")
    return Check("swap", f"{areas} areas", "what is not locked may be swapped out; lock_memory, mlockall, or swapoff")


def _huge_pages() -> Check:
    found = _read(HUGE_PAGES).partition("[")[2].partition("]")[0] or "none"
    advice = "khugepaged may hold up a page fault; write madvise there" if found == "always" else ""
    return Check("transparent huge pages", found, advice)


def _clock() -> Check:
    found = _read(CLOCK_SOURCE) or "unknown"
    advice = "" if found in QUICK_CLOCKS else "reading this clock is a system call, at each publish and take; use tsc"
    return Check("clock source", found, advice)
