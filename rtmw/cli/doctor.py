"""`rtmw doctor`: do the books of the domain balance, who is attached, and is this machine fit?"""

from __future__ import annotations

import argparse

from rtmw import observe, shm
from rtmw.cli.common import attach
from rtmw.cli.environment import Check, checks
from rtmw.cli.fitness import fitness
from rtmw.cli.show import Table, counted, show, show_json, size
from rtmw.errors import DomainNotFound

PAGE_BYTES = 4096


def doctor(arguments: argparse.Namespace) -> int:
    """Print the examination; status 1 if the books do not balance."""
    books, mapped = _examine(arguments.domain, arguments.fix)
    machine, leftovers = checks(), _leftovers(arguments.fix)
    real_time = fitness(mapped)
    balanced = books is None or not books.problems
    if arguments.json:
        found = {
            "books": books,
            "machine": machine,
            "real_time": real_time,
            "domains": shm.domains(),
            "leftovers": leftovers,
        }
        show_json({"domain": arguments.domain, "balanced": balanced, **found})
        return 0 if balanced else 1
    show(_checks_table("This machine", machine))
    show(_checks_table("For real time", real_time))
    print(f"Domains of this machine: {', '.join(str(number) for number in shm.domains()) or 'none'}")
    for name in leftovers:
        print(f"{name} was left by a program that died; {'removed' if arguments.fix else '--fix removes it'}.")
    if books is None:
        print(f"Domain {arguments.domain} does not exist: there are no books to check.")
    else:
        _show_books(arguments.domain, books)
    return 0 if balanced else 1


def _examine(number: int, fix: bool) -> tuple[observe.Books | None, int | None]:
    """The books, and the bytes that each of its processes maps; nothing without a domain."""
    try:
        with attach(number) as domain:
            return observe.examine(domain, fix), domain.region.mapped_bytes
    except DomainNotFound:
        return None, None


def _leftovers(fix: bool) -> list[str]:
    """Shared memory of regions that were never finished; with `fix`, it is removed."""
    names = shm.leftovers()
    for name in names if fix else []:
        shm.unlink_quietly(name)
    return names


def _checks_table(title: str, found: list[Check]) -> Table:
    return Table(title, ("what", "found", "advice"), [(c.name, c.found, c.advice or None) for c in found])


def _show_books(number: int, books: observe.Books) -> None:
    columns = ("pid", "process", "alive", "publishers", "subscribers", "loaned", "held")
    rows = [
        (p.pid, p.process, "yes" if p.alive else "no", p.publishers, p.subscribers, p.loaned, p.held)
        for p in books.participants
    ]
    show(Table(f"Domain {number}, region {books.version}: {len(rows)} participants", columns, rows))
    show(books_table(books))
    for line in books.repaired:
        print(f"Repaired: {line}")
    if books.reclaimed:
        print(f"Given back: {counted(books.reclaimed, 'descriptor')} that no queue and nobody held.")
    for line in books.problems:
        print(f"Problem: {line}")
    print("The books do not balance." if books.problems else "The books balance.")


def books_table(books: observe.Books) -> Table:
    """Where every descriptor and page is."""
    rows: list[tuple[str, int, str]] = [
        ("descriptors free", books.descriptors_free, ""),
        ("descriptors loaned", books.descriptors_loaned, ""),
        ("descriptors queued", books.descriptors_queued, ""),
        ("descriptors held", books.descriptors_held, ""),
        ("descriptors in all", books.descriptors, ""),
        ("pages used", books.pages_used, size(books.pages_used * PAGE_BYTES)),
        ("pages in all", books.pages, size(books.pages * PAGE_BYTES)),
    ]
    return Table("Books", ("what", "number", "size"), rows)
