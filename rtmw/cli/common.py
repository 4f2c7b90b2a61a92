"""What several commands need."""

from __future__ import annotations

import difflib

from rtmw import observe
from rtmw.domain import Domain
from rtmw.errors import RtmwError


class CommandError(RtmwError):
    """The command cannot do what it was asked; the message says why in one sentence."""


def attach(number: int) -> Domain:
    """Attach to a domain that exists; `DomainNotFound` otherwise."""
    return Domain(number, create=False)


def look_at(number: int) -> Domain:
    """Attach to a domain that exists, to look on: read-only, and without one of its 127 places."""
    return Domain(number, observe=True)


def find_topic(domain: Domain, number: int, name: str) -> observe.TopicView:
    """The topic of this name; the error suggests names that look like it."""
    views = {view.name: view for view in observe.topics(domain)}
    if name in views:
        return views[name]
    near = difflib.get_close_matches(name, views, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(views) or 'no topics'}."
    raise CommandError(f"There is no topic {name} in domain {number}; {advice}")
