"""What a verdict costs beside a lookup of a dictionary, in one run: `python -m tests.net.security.cost` prints it."""

from __future__ import annotations

import timeit

from rtmw.net.security.rules import Rights, Rule, RuleTable

RULES = 1000
NUMBER, REPEAT = 2000, 15
PEER = f"rtmw://plant/n{RULES - 1}"


def table() -> RuleTable:
    return RuleTable(tuple(Rule((f"rtmw://plant/n{number}",), {"publish": ("a/*",)}) for number in range(RULES)))


def seconds(act: object, number: int = NUMBER) -> float:
    """Of one call: the least of several rounds."""
    assert callable(act)
    return min(timeit.repeat(act, number=number, repeat=REPEAT)) / number


def kept_over_lookup() -> float:
    """A verdict that is kept, with a priority and a size, over a lookup in a dictionary of as many."""
    rights = Rights(table())
    entries = {(PEER, "publish", f"a/{number}"): number for number in range(RULES)}
    key = (PEER, "publish", "a/7")
    kept = seconds(lambda: rights.verdict(PEER, "publish", "a/7", priority=3, size=100))
    return kept / seconds(lambda: entries[key])


def main() -> None:
    rules, subjects = table(), iter(range(1 << 30))
    print(f"kept: {kept_over_lookup():.1f} lookups of a dictionary")
    first = seconds(lambda: RuleTable(rules.rules).judge(PEER, "publish", "a/7"), 20)
    other = seconds(lambda: rules.judge(PEER, "publish", f"a/{next(subjects)}"))
    print(f"the first of a peer, of a new table with {RULES} rules: {first * 1e6:.0f} µs")
    print(f"another subject of that peer: {other * 1e6:.1f} µs")


if __name__ == "__main__":
    main()
