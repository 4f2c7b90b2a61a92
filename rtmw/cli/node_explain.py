"""`rtmw node explain`, and `rtmw node check FILE --as`: what the rules of a settings file say of a peer, and why."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtmw.cli.common import CommandError
from rtmw.cli.node_status import find_status
from rtmw.cli.parsing import runs
from rtmw.cli.terminal import Table, say, show, show_json, size, warn
from rtmw.errors import DomainNotFound, RtmwError

if TYPE_CHECKING:
    from rtmw.net.security.rules import RuleTable, Verdict
    from rtmw.observe.node_status import NotCrossing

DIRECTIONS = {"publish": "comes in from the peer", "subscribe": "goes out to the peer"}
TRANSFERS = {"send": "transfers that the peer sends"}
"""The subject SERVICE@NODE stands for transfers to a service, as in addresses; it may be a topic's name, too."""
MISTAKE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, explain)
    parser.add_argument("topic", metavar="SUBJECT", help="a topic, or SERVICE@NODE for transfers")
    parser.add_argument("--peer", required=True, metavar="NAME", help="in its certificate: rtmw://SITE/NODE")
    parser.add_argument("--file", metavar="FILE", help="settings with the rules (default: those of the node)")


@dataclass(frozen=True)
class Source:
    """Where the rules are read, and which of them the node holds: it read the file when it started, or at SIGHUP."""

    path: Path
    held: str | None = None
    """Version of the rules that the node holds; None: no node was asked."""
    pid: int = 0
    """Process id of the node."""
    apart: tuple[NotCrossing, ...] = ()
    """Topics that do not cross, as its document says."""

    def read(self) -> RuleTable:
        """Raises RulesError, and says of a node that it goes on."""
        from rtmw.net.security import RulesError
        from rtmw.net.security.tables import read_rules

        try:
            return read_rules(self.path)
        except RulesError as error:
            if self.held is None:
                raise
            raise RulesError(
                f"{error}; the node goes on with the rules {self.held}, which it read before: mend the file, then "
                f"send SIGHUP to process {self.pid}"
            ) from None

    def warning(self, rules: RuleTable) -> str | None:
        """None if the node holds these rules."""
        if self.held in (None, rules.version):
            return None
        return (
            f"the node holds other rules, {self.held}: {self.path} has changed since it read them. It takes these in "
            f"once you send SIGHUP to process {self.pid}; if it refuses them, rtmw node check {self.path} says why"
        )

    def apart_by_link(self, topic: str, peer: str) -> Table:
        """Why the topic does not cross by the link with the peer, also by rules of the peer, as the node was told."""
        rows = [one for one in self.apart if (one.topic, one.peer) == (topic, peer)]
        words = [(one.direction, one.cause, one.reason.removeprefix(f"{peer}: ")) for one in rows]
        return Table("Does not cross by the link, says the node", ("direction", "cause", "why"), words)


def explain(arguments: argparse.Namespace) -> int:
    """Both directions of a topic, transfers to a SERVICE@NODE, and each rule for the peer. The status is always 0."""
    source = Source(Path(arguments.file)) if arguments.file else _source_of_node(arguments.domain)
    rules = source.read()
    warning = source.warning(rules)
    _check_peer(arguments.peer)
    ways = DIRECTIONS | TRANSFERS if "@" in arguments.topic else DIRECTIONS
    verdicts = {verb: rules.judge(arguments.peer, verb, arguments.topic) for verb in ways}
    considered = considerations(rules, arguments.peer, arguments.topic, tuple(ways))
    apart = source.apart_by_link(arguments.topic, arguments.peer)
    if arguments.json:
        told = {verb: as_row(verdict) for verb, verdict in verdicts.items()}
        known = {"file": str(source.path), "version": rules.version, "held": source.held, "warning": warning}
        show_json({**known, "verdicts": told, "rules": considered.named(), "apart": apart.named()})
        return 0
    rows = [(ways[verb], *_cells(verdict)) for verb, verdict in verdicts.items()]
    title = f"{arguments.topic} and {arguments.peer}, rules {rules.version}"
    show(Table(title, ("direction", "verdict", "why", "rule", "ceilings"), rows))
    for table in (considered, apart):
        if table.rows:
            show(table)
    if warning:
        say(f"Warning: {warning}.")
    return 0


def check_right(arguments: argparse.Namespace) -> int:
    """Offline, for people's CI. Status 0: allowed, 1: denied, 2: a mistake in the file or the question."""
    try:
        return _check_right(arguments)
    except RtmwError as error:
        warn(f"rtmw: {error}")
        return MISTAKE


def _check_right(arguments: argparse.Namespace) -> int:
    from rtmw.net.security.tables import read_rules

    peer, verb, subject = arguments.right
    _check_peer(peer)
    try:
        rules = read_rules(Path(arguments.file))
        verdict = rules.judge(peer, verb, subject, arguments.priority or 0, arguments.size or 0)
    except ValueError as error:
        raise CommandError(str(error)) from None
    if arguments.json:
        show_json({"file": arguments.file, "peer": peer, "verb": verb, "subject": subject, **as_row(verdict)})
    else:
        columns = ("peer", "verb", "subject", "verdict", "why", "rule", "ceilings")
        show(Table("", columns, [(peer, verb, subject, *_cells(verdict))]))
    return 0 if verdict.allowed else 1


def as_row(verdict: Verdict) -> dict[str, Any]:
    """Returns a verdict in the form that programs read."""
    row: dict[str, Any] = {"allowed": verdict.allowed, "cause": verdict.cause, "why": verdict.why}
    row |= {"rule": verdict.place, "version": verdict.version}
    if verdict.allowed:
        row |= {"max_priority": verdict.max_priority, "max_size": verdict.max_size, "max_rate": verdict.max_rate}
    return row


def considerations(rules: RuleTable, peer: str, topic: str, verbs: tuple[str, ...]) -> Table:
    """Each rule that is for the peer, with what it says of the topic or service by itself."""
    from rtmw.net.security.rules import node_of

    node = node_of(peer)
    rows: list[tuple[str, str, str, str]] = []
    for rule in rules.rules:
        if rule.is_for(peer):
            says = ("yes" if rule.allows_to(verb, topic, node) else "-" for verb in verbs)
            rows.append((rule.place, *says, "denies" if rule.denies(topic, node) else "-"))  # type: ignore[arg-type]
    return Table("Rules for this peer, in their order", ("rule", *verbs, "deny"), rows)


def _cells(verdict: Verdict) -> tuple[str, str, str | None, str | None]:
    return ("allowed" if verdict.allowed else "denied", verdict.why, verdict.place, _ceilings(verdict))


def _ceilings(verdict: Verdict) -> str | None:
    if not verdict.allowed:
        return None
    parts = [f"priority {verdict.max_priority}"]
    if verdict.max_size:
        parts.append(f"{size(verdict.max_size)} a message")
    if verdict.max_rate:
        parts.append(f"{size(verdict.max_rate)}/s")
    return ", ".join(parts)


def _check_peer(peer: str) -> None:
    """A name that no certificate can have would always be denied, and nobody would see the slip."""
    from rtmw.net.security.names import USER, parse_name

    if peer.startswith(USER) and peer.removeprefix(USER).isdecimal():
        return
    try:
        parse_name(peer)
    except ValueError as error:
        raise CommandError(str(error)) from None


def _source_of_node(domain: int) -> Source:
    """Returns where the node that runs has its rules from."""
    try:
        status = find_status(domain)
    except DomainNotFound:
        status = None
    if status is None or not status.rules.file:
        raise CommandError(f"no node of domain {domain} has rules: name the settings with --file")
    return Source(Path(status.rules.file), status.rules.version, status.pid, status.apart)
