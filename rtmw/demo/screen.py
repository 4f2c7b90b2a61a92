"""The display while the demonstration runs: counters out of the region, nothing is subscribed for it."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rtmw import observe
from rtmw.cli.rates import Meter, Rate
from rtmw.cli.terminal import Table, as_rich, on_terminal, say
from rtmw.clock import CLOCK
from rtmw.demo.crew import Crew
from rtmw.domain import Domain
from rtmw.patterns import is_own

LIVE_S, PLAIN_S = 0.25, 1.0
"""How often the table is drawn on a terminal, and a line printed elsewhere."""
ALARMS = 4


def watch(here: Domain, there: Domain, crew: Crew, seconds: float) -> None:
    """Show both hosts for so long: a live table on a terminal, else a line a second."""
    if not on_terminal():
        _watch_lines(here, there, seconds)
        return
    from rich.console import Group
    from rich.live import Live

    meter = Meter()
    with Live(auto_refresh=False, transient=True) as live:
        for left in _turns(seconds, LIVE_S):
            views = observe.topics(here)
            rates = meter.read(views, CLOCK.monotonic())
            everybody = subscribers_table(views + observe.topics(there), crew)
            tables = [as_rich(topics_table(views, rates, left)), as_rich(everybody)]
            live.update(Group(*tables, *_alarm_lines(crew)), refresh=True)


def _watch_lines(here: Domain, there: Domain, seconds: float) -> None:
    meter = Meter()
    for left in _turns(seconds, PLAIN_S):
        rates = meter.read(observe.topics(here), CLOCK.monotonic())
        if rates:
            shown = ", ".join(f"{rate.topic.rpartition('/')[2]} {rate.hz:.0f}" for rate in rates)
            say(f"{left:3.0f} s left; messages a second: {shown}; crossed {crossed(there)}", flush=True)


def crossed(there: Domain) -> int:
    """Messages that have come to the other host so far."""
    return sum(view.published for view in observe.topics(there) if not is_own(view.name))


def _turns(seconds: float, pause: float) -> Iterator[float]:
    """Seconds left, once every pause, until there are none."""
    end = CLOCK.monotonic() + seconds
    while (left := end - CLOCK.monotonic()) > 0:
        yield left
        time.sleep(min(pause, max(0.0, end - CLOCK.monotonic())))


def short(view: observe.TopicView) -> str:
    """The name without `telemetry/`."""
    return view.name.rpartition("/")[2]


def topics_table(views: list[observe.TopicView], rates: list[Rate], left: float) -> Table:
    """A row a topic."""
    hz = {rate.topic: rate.hz for rate in rates}
    rows = [
        (short(v), round(hz.get(v.name, 0.0)), v.published, sum(v.queued), sum(p.timed_out for p in v.publishers))
        for v in views
    ]
    title = f"Telemetry of this machine, {left:.0f} s left"
    return Table(title, ("topic", "messages/s", "published", "queued", "refused"), rows)


def subscribers_table(views: list[observe.TopicView], crew: Crew) -> Table:
    """A row a subscriber, a column a cause of drops."""
    rows = [
        (crew.role(s.pid), short(view), s.received, s.behind, s.missed, s.expired, s.thinned, s.deadlines_missed)
        for view in views
        for s in view.subscribers
    ]
    columns = ("subscriber", "topic", "received", "behind", "missed", "expired", "thinned", "deadlines missed")
    return Table("", columns, sorted(rows))


def _alarm_lines(crew: Crew) -> list[str]:
    return [f"{alarm['severity']}: {alarm['text']}" for alarm in crew.said("alarms", "alarm")[-ALARMS:]]
