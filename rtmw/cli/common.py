"""Functions that several commands share."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from rtmw import observe, shm
from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.errors import DomainNotFound, RtmwError
from rtmw.text.addresses import is_loopback
from rtmw.text.patterns import topics_of

LOOK_S: Final = 0.05
"""Seconds between looks for something that is awaited, such as a domain or a topic."""


class CommandError(RtmwError):
    """The command cannot be done; the text says why, and what helps."""


def place_of(arguments: argparse.Namespace, reads: str, advice: str, *, allowed: bool = False) -> tuple[str, int]:
    """Returns where a server listens, by the arguments of `add_listen`. CommandError for an address other than
    loopback that nobody has allowed. `reads`: who reads what there; `advice`: what else helps."""
    address, port = arguments.listen
    if not (is_loopback(address) or arguments.allow_remote or allowed):
        raise CommandError(f"{address} is reached from other hosts, {reads}: say --allow-remote, or {advice}.")
    return address, port


def attach(number: int) -> Domain:
    """Attach to a domain that exists; `DomainNotFound` otherwise."""
    return Domain(number, create=False)


def attach_served(number: int) -> Domain:
    """Attaches to a domain for commands of transfers. Without a domain no node serves them either: CoreNotRunning."""
    try:
        return attach(number)
    except DomainNotFound:
        from rtmw.transfer.client.line import no_core  # only commands of transfers need it

        raise no_core(number) from None


def look_at(number: int) -> Domain:
    """Attach to a domain that exists, to look on: read-only, and without one of its 127 places."""
    return Domain(number, observe=True)


def open_to(group: int | None) -> str:
    """Says, behind other words about a domain, who else may use it; empty: it is for one user."""
    return "" if group is None else f", open to the users of group {shm.group_name(group)}"


def await_topic(
    number: int, wanted: Sequence[str], timeout_s: float | None, attached: Callable[[int], Domain] = attach,
    sleep: Callable[[float], object] = time.sleep,
) -> Domain:  # fmt: skip
    """Attach to the domain once it is there and has a topic of these names and patterns; CommandError after that time.
    `wanted`: empty asks for no topic. `sleep`: what waits between looks, and may end the waiting by an error."""
    end_s = None if timeout_s is None else CLOCK.monotonic() + timeout_s
    while True:
        with suppress(DomainNotFound):
            if _has_topic(number, wanted):
                return attached(number)
        if end_s is not None and CLOCK.monotonic() >= end_s:
            what = f"topic {', '.join(wanted)} in domain {number}" if wanted else f"domain {number}"
            raise CommandError(f"There is no {what} after {timeout_s:g} s.")
        sleep(LOOK_S)


def _has_topic(number: int, wanted: Sequence[str]) -> bool:
    with look_at(number) as domain:
        return not wanted or any(topics_of(wanted).take(row.name) for row in shm.topics(domain.region))


def find_topic(domain: Domain, number: int, name: str) -> observe.TopicView:
    """The topic of this name; the error suggests names that look like it."""
    views = {view.name: view for view in observe.topics(domain)}
    if name in views:
        return views[name]
    raise CommandError(f"There is no topic {name} in domain {number}; {meant(name, views, 'topics')}")


def meant(name: str, names: Iterable[str], what: str) -> str:
    """A clause that suggests the names that look like this one, or else says all; `what`: the word for them."""
    from difflib import get_close_matches  # only needed here

    names = list(names)
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(names) or f'no {what}'}."
