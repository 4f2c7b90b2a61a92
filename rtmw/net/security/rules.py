"""The rights of peers: one table of rules, as it was read from a file. Denied by default, and `deny` wins.

    [[allow]]
    peer = "rtmw://plant/press-*"      # a pattern of names in certificates, or a list of them
    publish = ["{node}/*"]             # {node}: the last part of the peer's name
    subscribe = ["alarm/*"]
    deny = ["*/secret"]                # of whatever verb
    max_priority = 5
    max_size = "64M"
    max_rate = "10M"

A peer may do something to a subject if and only if: (1) no rule for the peer denies the subject; (2) a rule for the
peer allows the verb for the subject; (3) the ceilings of the first such rule are kept.

`Rights` is the table as a running program asks it: verdicts are kept, denials counted, rules changed as a whole.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from rtmw.net.security import RulesError
from rtmw.net.security.names import AGENT, SCHEME, USER, is_agent, is_user, parse_name
from rtmw.qos import PRIORITIES
from rtmw.settings import in_short
from rtmw.settings.values import count
from rtmw.text.patterns import check_pattern, is_meant, is_own, is_pattern
from rtmw.text.units import size as in_words
from rtmw.text.units import some_bytes, some_seconds

if TYPE_CHECKING:
    from rtmw.observe.node_status import Denial

VERBS: Final[dict[str, str]] = {
    "publish": "topics",
    "subscribe": "topics",
    "send": "transfers",
    "append": "logs",
    "read": "logs",
    "serve": "services",
    "order": "orders",
    "follow": "subjects",
}
"""Verbs of a peer here, and their subjects: `publish` brings messages in, `subscribe` takes messages of this host.
`order` and `follow` are of agents of a relay; the subject of an order is TO/COMMAND, or TO/COMMAND/PERFORMATIVE."""
TOPIC_VERBS: Final = frozenset({"publish", "subscribe"})
CAUSES: Final = {
    "peer": "no rule is for this peer",
    "subject": "no rule allows this peer to {verb} it",
    "deny": "a rule denies it",
    "priority": "priority {priority} is above {max_priority}, which the rule allows",
    "size": "{size} are more than {max_size}, which the rule allows",
    "pattern": "a right is for one name; this is a pattern",
    "own": "topics of rtmw itself stay on their host",
}
"""Why something is denied: labels of counters, and the same in words."""
UNTOLD: Final = "/("
"""Ends the subject of an order in a list that is no KQML: no right to one performative lets it through."""
PEERS_KEPT: Final = 4096
USUAL_PRIORITY: Final = 3
"""The priority of orders that say none."""
_NODE: Final = "{node}"
_BRACES: Final = re.compile(r"\{[^}]*\}?")
_LONGEST_S: Final = 1e9
_OF_USERS: Final = re.compile(r"uid:[0-9*?\[\]!-]+")


@dataclass(frozen=True)
class Rule:
    """One `[[allow]]`. Ceilings of 0 for size and rate: none."""

    peers: tuple[str, ...]
    allows: Mapping[str, tuple[str, ...]]
    """Patterns of subjects by verb."""
    deny: tuple[str, ...] = ()
    max_priority: int = PRIORITIES - 1
    max_size: int = 0
    """Bytes of a message."""
    max_rate: int = 0
    """Bytes a second of a route."""
    priority: int = USUAL_PRIORITY
    """Priority of orders whose frame says none."""
    lifetime: float = 0.0
    """Lifetime in seconds of orders whose frame says none; 0: as the relay has it."""
    max_orders: int = 0
    """Orders a second."""
    place: str = field(default="", compare=False)
    """File and line."""

    @property
    def of_orders(self) -> tuple[int, float, int]:
        """The terms that orders alone have: priority, lifetime, and how many a second."""
        return self.priority, self.lifetime, self.max_orders

    def is_for(self, peer: str) -> bool:
        """By name, or by a pattern."""
        return any(is_meant(peer, one) for one in self.peers)

    def allows_to(self, verb: str, subject: str, node: str | None) -> bool:
        """Apart from ceilings. `node`: of the peer's name; None: it has no such name, so `{node}` means nothing."""
        return not subject.endswith(UNTOLD) and _fits(subject, self.allows.get(verb, ()), node)

    def denies(self, subject: str, node: str | None) -> bool:
        """Also where other rules allow it. Of an order whose performative nobody can tell: any of them may be meant,
        so it is denied where a pattern can begin as its TO/COMMAND does."""
        denied = self.deny
        if subject.endswith(UNTOLD):
            denied = tuple(one[: end + 1] for one in self.deny for end in range(len(one)))
        return _fits(subject.removesuffix(UNTOLD), denied, node)


@dataclass(frozen=True)
class Verdict:
    """The judgement of the table on one peer, verb and subject. A value; it holds for the table with this `version`."""

    allowed: bool
    cause: str
    """Empty if allowed; else one of CAUSES."""
    why: str
    rule: Rule | None
    """The rule that decided; None: there is none that fits."""
    version: str
    max_priority: int = 0
    max_size: int = 0
    """Bytes of a message; 0: no limit."""
    max_rate: int = 0
    """Bytes a second; 0: no limit."""

    @property
    def place(self) -> str | None:
        """File and line of the rule."""
        return self.rule.place if self.rule else None

    @property
    def ceilings(self) -> tuple[int, int, int]:
        """Priority, size and rate."""
        return (self.max_priority, self.max_size, self.max_rate)

    def keeps(self, priority: int, size: int) -> bool:
        """Is a message within the ceilings? For each message: two comparisons."""
        return priority <= self.max_priority and (not self.max_size or size <= self.max_size)


@dataclass(frozen=True)
class RuleTable:
    """All rules of one file, in its order."""

    rules: tuple[Rule, ...] = ()
    source: str = ""
    """The file."""

    @cached_property
    def version(self) -> str:
        """12 digits of SHA-256, alike on each host that has these rules."""
        return _version(self.rules)

    @cached_property
    def _rules_for(self) -> Callable[[str], list[Rule]]:
        """The rules that are for a peer; kept for as many peers as are likely to ask again."""

        def look(peer: str) -> list[Rule]:
            return [rule for rule in self.rules if rule.is_for(peer)]

        return lru_cache(PEERS_KEPT)(look)

    def knows(self, peer: str) -> bool:
        """Is any rule for the peer?"""
        return bool(self._rules_for(peer))

    def most_orders(self, peer: str) -> Rule | None:
        """The rule that lets the peer send most orders a second; None: no rule for it says how many."""
        bounding = (rule for rule in self._rules_for(peer) if rule.max_orders)
        return max(bounding, key=lambda rule: rule.max_orders, default=None)

    def judge(self, peer: str, verb: str, subject: str, priority: int = 0, size: int = 0) -> Verdict:
        """By looking at each rule. Raises ValueError for a verb that there is not."""
        if verb not in VERBS:
            raise ValueError(f"there is no verb {verb!r}; there are {', '.join(VERBS)}")
        if is_pattern(subject):
            return self._denied("pattern", None)
        if verb in TOPIC_VERBS and is_own(subject):
            return self._denied("own", None)
        node, mine = node_of(peer), self._rules_for(peer)
        if not mine:
            return self._denied("peer", None)
        meant = _meant(verb, subject)
        denying = next((rule for rule in mine if any(rule.denies(one, node) for one in meant)), None)
        if denying is not None:
            return self._denied("deny", denying)
        rule = next((rule for rule in mine if any(rule.allows_to(verb, one, node) for one in meant)), None)
        if rule is None:
            return self._denied("subject", None, verb=verb)
        verdict = Verdict(True, "", "allowed", rule, self.version, rule.max_priority, rule.max_size, rule.max_rate)
        return within(verdict, priority, size)

    def _denied(self, cause: str, rule: Rule | None, **words: object) -> Verdict:
        return Verdict(False, cause, CAUSES[cause].format(**words), rule, self.version)


def within(verdict: Verdict, priority: int, size: int) -> Verdict:
    """Returns `verdict` if `priority` and `size` are within its ceilings; else a verdict that denies."""
    if not verdict.allowed or verdict.keeps(priority, size):
        return verdict
    cause = "priority" if priority > verdict.max_priority else "size"
    words: dict[str, object] = {"priority": priority, "max_priority": verdict.max_priority}
    words |= {"size": in_words(size), "max_size": in_words(verdict.max_size)}
    return Verdict(False, cause, CAUSES[cause].format(**words), verdict.rule, verdict.version)


NO_RULES: Final = RuleTable()
"""Nothing is allowed."""


def _meant(verb: str, subject: str) -> tuple[str, ...]:
    """A right to TO/COMMAND is one to all of its performatives."""
    is_kqml = verb == "order" and subject.count("/") > 1
    return (subject, subject.rpartition("/")[0]) if is_kqml else (subject,)


def node_of(peer: str) -> str | None:
    """The last part of a node's name, or the name of an agent; None for a peer of another kind."""
    if is_agent(peer):
        return peer.removeprefix(AGENT)
    try:
        return parse_name(peer).node
    except ValueError:
        return None


def _fits(subject: str, patterns: Iterable[str], node: str | None) -> bool:
    for pattern in patterns:
        if _NODE in pattern:
            if node is None:
                continue
            pattern = pattern.replace(_NODE, node)
        if is_meant(subject, pattern):
            return True
    return False


_USUAL: Final = Rule((), {}).of_orders
"""Rules that say nothing of orders have the version that they had before there were any."""


def _version(rules: tuple[Rule, ...]) -> str:
    told = list[list[Any]]()
    for rule in rules:
        row = [rule.peers, sorted(rule.allows.items()), rule.deny, rule.max_priority, rule.max_size, rule.max_rate]
        told.append([*row, *rule.of_orders] if rule.of_orders != _USUAL else row)
    from hashlib import sha256  # only needed here, and OpenSSL with it

    return sha256(json.dumps(told).encode()).hexdigest()[:12]


def make_rule(values: Mapping[str, Any], place: Callable[[str], str], at: str) -> Rule:
    """Makes a rule of one `[[allow]]`. `place` says where a key stands, `at` where the rule does. Raises RulesError."""
    known = ("peer", *VERBS, "deny", *_TERMS)
    checked = dict[str, Any]()
    for key, value in values.items():
        if key not in known:
            from difflib import get_close_matches  # only needed here

            near = get_close_matches(key, known, n=1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise RulesError(f"{place(key)}: a rule has no {in_short(key)}; {advice}")
        check = _peers if key == "peer" else _orders if key == "order" else _TERMS.get(key, _patterns)
        try:
            checked[key] = check(value)
        except ValueError as error:
            raise RulesError(f"{place(key)}: {key} cannot be used: {in_short(str(error))}") from None
    if "peer" not in checked:
        raise RulesError(f'{at}: a rule needs peer, such as peer = "rtmw://plant/press-*"')
    allows = {verb: checked[verb] for verb in VERBS if verb in checked}
    if not allows and "deny" not in checked:
        raise RulesError(f"{at}: the rule allows and denies nothing; it needs one of {', '.join((*VERBS, 'deny'))}")
    terms = {key: checked[key] for key in _TERMS if key in checked}
    if terms.get("priority", 0) > terms.get("max_priority", PRIORITIES):
        raise RulesError(f"{place('priority')}: priority is above max_priority of the same rule")
    return Rule(checked["peer"], allows, checked.get("deny", ()), **terms, place=at)


def _texts(value: Any) -> tuple[str, ...]:
    items = cast("list[Any]", value) if isinstance(value, list | tuple) else [value]
    if not items:
        raise ValueError("it is empty, which means nothing; leave it out")
    for item in items:
        if not isinstance(item, str) or not item:
            raise ValueError(f"it has {item!r}; it must be a text or a list of texts")
    return tuple(items)


def _patterns(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise ValueError(f"it is {value!r}; it must be a list of patterns, such as ['alarm/*']")
    found = _texts(value)
    for pattern in map(check_pattern, found):
        for braces in _BRACES.findall(pattern):
            if braces != _NODE:
                raise ValueError(f"{pattern!r} has {braces}; there is {_NODE} only, the last part of the peer's name")
    return found


def _orders(value: Any) -> tuple[str, ...]:
    found = _patterns(value)
    for pattern in found:
        if "/" not in pattern and "*" not in pattern:
            raise ValueError(f"{pattern!r} names no command; it must be TO/COMMAND, such as 'GATE/I' or 'GATE/*'")
    return found


def _peers(value: Any) -> tuple[str, ...]:
    found = _texts(value)
    for pattern in found:
        if not pattern.startswith((SCHEME, USER, AGENT)) and pattern != "*":
            raise ValueError(
                f"{pattern!r} fits no peer; names are rtmw://SITE/NODE, uid:NUMBER or agent:NAME, and '*' is all"
            )
        if is_user(pattern) and not _OF_USERS.fullmatch(pattern):
            raise ValueError(f"{pattern!r} fits no peer; a user has a number, such as uid:1000, which `id -u` tells")
    return found


def _priority(value: Any) -> int:
    if type(value) is not int or not 0 <= value < PRIORITIES:
        raise ValueError(f"it is {value!r}; priorities are from 0 to {PRIORITIES - 1}")
    return value


def _bytes(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not a size; write bytes as a number, or as '512K', '64M', '2G'")
    return some_bytes(value)


def _seconds(value: Any) -> float:
    found = some_seconds(value)
    if found > _LONGEST_S:
        raise ValueError(f"{value!r} is too long; at most {_LONGEST_S:g} s")
    return found


_TERMS: Final[dict[str, Callable[[Any], Any]]] = {
    "max_priority": _priority,
    "max_size": _bytes,
    "max_rate": _bytes,
    "priority": _priority,
    "lifetime": _seconds,
    "max_orders": count,
}


KEPT: Final = 16384
"""Verdicts that are kept; the one that was not asked for longest gives way."""
TOLD_MOST: Final = 1000
"""Rows of denials; what comes later is counted for "others"."""
OTHERS: Final = "others"


class Route(NamedTuple):
    """A route that a peer has open: the arguments of a verdict."""

    peer: str
    verb: str
    subject: str
    priority: int = 0
    size: int = 0


class Rights:
    """The rights of peers by one table of rules. For several threads."""

    table: RuleTable
    _judge: Callable[[str, str, str], Verdict]

    def __init__(self, table: RuleTable) -> None:
        self._lock = threading.Lock()
        """Protects the counts."""
        self._denied: Counter[tuple[str, str, str]] = Counter()
        self._last: dict[tuple[str, str, str], tuple[str, str | None]] = {}
        self.swap(table)

    def swap(self, table: RuleTable) -> RuleTable | None:
        """Take these rules from the next verdict on; the rules that held before. `revoked` says which open routes
        must close. Counts stay."""
        before = getattr(self, "table", None)
        self._judge, self.table = lru_cache(KEPT)(table.judge), table
        return before

    def verdict(self, peer: str, verb: str, subject: str, *, priority: int = 0, size: int = 0) -> Verdict:
        """May this peer? To be asked when a route opens; what the ceilings of the verdict say of each message,
        `Verdict.keeps` answers. `priority`: the highest, `size`: the largest in bytes that is known of the route.

        `peer`: the name in its certificate. Raises ValueError for a verb that there is not.
        """
        found = self._judge(peer, verb, subject)
        if found.allowed and (priority or size):
            found = within(found, priority, size)
        if not found.allowed:
            self._count(peer, verb, subject, found)
        return found

    def may(self, peer: str, verb: str, subject: str) -> Verdict:
        """Judges like `verdict`, for a caller that only plans: a denial is not counted."""
        return self._judge(peer, verb, subject)

    def _count(self, peer: str, verb: str, subject: str, verdict: Verdict) -> None:
        with self._lock:
            key = (peer, verb, verdict.cause)
            if key not in self._denied and len(self._denied) >= TOLD_MOST:
                key = (OTHERS, verb, verdict.cause)
            self._denied[key] += 1
            self._last[key] = (subject, verdict.place)

    def denials(self) -> tuple[Denial, ...]:
        """A row for each peer, verb and cause: how often, and which subject and rule it was the last time."""
        from rtmw.observe.node_status import Denial  # most that read rules tell nobody of denials

        with self._lock:
            found = [(key, number, self._last[key]) for key, number in self._denied.items()]
        return tuple(Denial(*key, number, subject, rule) for key, number, (subject, rule) in found)

    def causes(self) -> Counter[str]:
        """How often something was denied, by cause."""
        with self._lock:
            total = Counter[str]()
            for (_, _, cause), number in self._denied.items():
                total[cause] += number
        return total


def revoked(old: RuleTable, new: RuleTable, routes: Iterable[Route]) -> list[tuple[Route, Verdict]]:
    """Open routes that `old` allows and `new` does not, each with the verdict that says why: they are to be closed."""
    if old.version == new.version:
        return []
    judged = ((route, new.judge(*route)) for route in routes if old.judge(*route).allowed)
    return [(route, verdict) for route, verdict in judged if not verdict.allowed]
