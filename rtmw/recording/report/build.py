"""Recordings to a report, from the paths to the sections of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rtmw.clock import CLOCK
from rtmw.recording.files import SUFFIX, Source, find_recordings
from rtmw.recording.places import is_remote, place, refuse_standard_output, written_whole
from rtmw.recording.report.facts import Contents, Facts, Measure, busiest, contents_of, measured_here
from rtmw.recording.report.figures import grid_of
from rtmw.recording.report.page import BEGIN, Line, Page, Plot, moment, shown
from rtmw.recording.report.verdict import Check, verdict
from rtmw.recording.tools.copying import Progress, no_progress
from rtmw.text.units import counted, duration, size

if TYPE_CHECKING:
    from rtmw.recording.report.facts import File
    from rtmw.recording.report.figures import Distribution, TopicFigures


MOST_TOPICS: Final = 8
"""Topics that a plot shows, at most."""
MOST_ROWS: Final = 12
"""Rows of a table of events, at most."""
MS, US = 1e6, 1e3
MEANINGS: Final = {
    "missed": "the queue or the pool was full before the recorder came to it: a larger pool, or fewer topics",
    "expired": "the lifetime was over",
    "overflowed": "the disk was slower than the topics: a larger --buffer, --compression, a faster disk",
    "paused": "the recorder was told to pause",
    "early": "published on a new topic before the recorder had found it: name the topic",
    "unwritten": "the disk failed: make room, or replace it",
    "unknown type": "the file has all of the channels that it can tell apart",
}
"""What helps against each cause for which messages are missing."""


def subtitle(facts: Facts) -> str:
    """Returns which files are reported on, and from when to when."""
    names = [file.info.path.name for file in facts.contents.files]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    run = facts.contents.run
    ends = f", from {shown(moment(run.start_ns))} to {shown(moment(run.end_ns))} UTC" if run.messages else ""
    return ", ".join(names[:3]) + more + ends


def summary(page: Page, facts: Facts) -> None:
    run, seconds = facts.contents.run, facts.grid.seconds
    payload = sum(one.bytes for one in facts.topics)
    rate = f", {size(payload / seconds)}/s" if seconds and payload else ""
    page.cards(
        [
            (f"{run.messages:,}", f"messages{f', {run.messages / seconds:,.4g} a second' if seconds else ''}"),
            (f"{run.topic_count:,}", "topics"),
            (duration(seconds) or "", "recorded"),
            (size(payload), f"of payload{rate}"),
            (size(run.size), f"in {counted(run.files, 'file')}"),
        ]
    )


def topics(page: Page, facts: Facts) -> None:
    about = "Rates, the gaps from message to message, and how far gaps are from their median (jitter)."
    late = [one.topic for one in facts.topics if one.clock == "recorded"]
    if late:
        about += f" By the times of recording, because the messages were published at other times: {', '.join(late)}."
    page.heading("Topics", about)
    page.table(
        ("topic", "messages", "hz", "gap_p50_ms", "gap_p99_ms", "gap_max_ms", "jitter_p99_ms", "bytes", "bps"),
        [
            (one.topic, one.messages, one.hz, *_gaps(one.gaps), one.jitter_p99 / MS if one.gaps else None,
             one.bytes, one.bytes / facts.grid.seconds if facts.grid.seconds else None)
            for one in facts.topics
        ],
    )  # fmt: skip


def _gaps(gaps: Distribution | None) -> tuple[float | None, ...]:
    return (None, None, None) if gaps is None else (gaps.p50 / MS, gaps.p99 / MS, gaps.most / MS)


def missing(page: Page, facts: Facts) -> None:
    rows = [
        (topic.topic, count, word := cause.replace("_", " "), MEANINGS.get(word))
        for topic in facts.contents.run.topics
        for cause, count in sorted(topic.missing.items())
    ]
    if rows:
        page.heading("Missing messages", "What the recorder did not get, why, and what helps.")
        page.table(("topic", "messages", "cause", "meaning"), rows)
    lost = [one for one in facts.topics if one.lost]
    if lost:
        page.heading(
            "Sequence gaps", "Sequence numbers without a message, beside those that the recorder counted as missing."
        )
        page.table(
            ("topic", "numbers", "counted as missing", "largest gap", "before"),
            [(one.topic, one.lost, facts.missing_of(one.topic), one.jumps[0].lost, moment(one.jumps[0].at_ns))
             for one in lost],
        )  # fmt: skip


def silences(page: Page, facts: Facts) -> None:
    """Dead topics, and interruptions of the others."""
    rows: list[tuple[Any, ...]] = [(name, None, None, None, "never heard") for name in facts.never_heard]
    words = {"between": "between two messages", "end": "until the end", "begin": "before the first message"}
    found = sorted(
        ((one, silence) for one in facts.topics for silence in one.silences), key=lambda pair: -pair[1].seconds
    )
    for one, silence in found[:MOST_ROWS]:
        begin, end = moment(silence.begin_ns), moment(silence.end_ns)
        rows.append((one.topic, begin, end, silence.seconds, words[silence.place]))
    if not rows:
        return
    every = sum(one.silence_count for one in facts.topics)
    more = f" The {MOST_ROWS} longest of {every}." if every > MOST_ROWS else ""
    how = "longer than the deadline" if facts.has_deadline else "ten times as long as is usual on the topic"
    page.heading("Dead and silent topics", f"Times without a message that are {how}.{more}")
    page.table(("topic", "from", "to", "silent_s", "where"), rows)


def deadlines(page: Page, facts: Facts) -> None:
    deadline_ns = facts.grid.deadline_ns
    if deadline_ns is None:
        return
    about = "until the recording's end. Topics that were there from the beginning count from there."
    page.heading("Deadline", f"A message is expected {deadline_ns / 1e9:g} s after the one before, {about}")
    page.table(
        ("topic", "messages", "misses", "longest_s", "over_s"),
        [(one.topic, one.messages, one.deadline.misses, one.deadline.longest_ns / 1e9, one.deadline.over_ns / 1e9)
         for one in facts.topics if one.deadline is not None],
    )  # fmt: skip


def over_time(page: Page, facts: Facts) -> None:
    """Rates of the busiest topics and of those that fell silent, each on a scale of its own; bytes on one scale."""
    grid, few = facts.grid, busiest(facts.topics, MOST_TOPICS)
    silent = [one for one in facts.topics if one.silences and one not in few][:MOST_TOPICS]
    seconds = grid.every_ns / 1e9
    about = f"In intervals of {duration(seconds)}; times are UTC."
    if len(facts.topics) > len(few):
        about += f" The {len(few)} busiest topics" + (", and those that fell silent." if silent else ".")
    page.heading("Messages a second", about + " Circles: the recording began or ended within the interval.")
    page.plots(
        _intervals(facts, one.topic, [Line(one.topic, [n / seconds for n in one.counts])], "")
        for one in [*few, *silent]
    )
    heavy = sorted(facts.topics, key=lambda one: (-one.bytes, one.topic))[:MOST_TOPICS]
    page.heading("Bytes a second", "Of payload, of the topics that have most.")
    lines = [Line(one.topic, [n / seconds for n in one.sizes], hue) for hue, one in enumerate(heavy)]
    page.plot(_intervals(facts, "", lines, "bytes/s"))


def _intervals(facts: Facts, title: str, lines: Sequence[Line], unit: str) -> Plot:
    grid = facts.grid
    partial = frozenset(number for number in (0, grid.count - 1) if grid.is_partial(number))
    return Plot(title, _times(facts), lines, unit, partial, until_ns=grid.begin_ns(grid.count))


def _times(facts: Facts) -> list[int]:
    return [facts.grid.begin_ns(number) for number in range(facts.grid.count)]


def latency(page: Page, facts: Facts) -> None:
    measured = [one for one in facts.topics if one.latency is not None]
    if not measured:
        return
    page.heading("Latency", "Microseconds from publishing until the recorder had the message.")
    names = ("messages", "min_us", "p50_us", "p90_us", "p99_us", "p999_us", "max_us")
    page.table(("topic", *names), [(one.topic, *_latency(one.latency)) for one in measured])
    few = busiest(measured, MOST_TOPICS)
    page.heading("Latency over time", "Of each interval: half of the messages were faster than p50, 99 % than p99.")
    page.plots(_latency_plot(facts, one) for one in few)


def _latency(took: Distribution | None) -> tuple[float, ...]:
    if took is None:
        return ()
    ordered = (took.least, took.p50, took.p90, took.p99, took.p999, took.most)
    return (took.count, *(value / US for value in ordered))


def _latency_plot(facts: Facts, one: TopicFigures) -> Plot:
    found = {instant.interval: instant for instant in one.latencies}
    numbers = range(facts.grid.count)
    lines = [
        Line(name, [getattr(found[n], part) / 1e9 if n in found else None for n in numbers], hue)
        for hue, (name, part) in enumerate((("p50", "p50"), ("p99", "p99"), ("max", "most")))
    ]
    return Plot(one.topic, _times(facts), lines, "s", logarithmic=True)


def lifetimes(page: Page, facts: Facts) -> None:
    having = [(one.topic, one.lifetimes) for one in facts.topics if one.lifetimes is not None]
    if having:
        page.heading("Lifetimes", "Messages that have one, and those whose was over before they were recorded.")
        rows = [(topic, one.messages, one.late, one.late / one.messages, one.worst_ns / MS if one.late else None)
                for topic, one in having]  # fmt: skip
        page.table(("topic", "messages", "late", "share", "worst_ms"), rows)


def types(page: Page, facts: Facts) -> None:
    """Writes the section of types: each type of each topic once, over all files."""
    found: dict[tuple[str, str, str], tuple[int, str | None]] = {}
    for file in facts.contents.files:
        for topic in file.info.topics:
            version = f"{topic.version} of {topic.versions}" if topic.versions > 1 else ""
            messages, problem = found.get((topic.topic, topic.type, version), (0, None))
            found[topic.topic, topic.type, version] = messages + topic.messages, problem or topic.problem
    page.heading("Types", "A version is another structure under the same name.")
    columns: Sequence[str] = ("topic", "type", "version", "messages", "problem")
    rows: list[tuple[Any, ...]] = [
        (topic, type, version or None, messages, problem)
        for (topic, type, version), (messages, problem) in sorted(found.items())
    ]
    used = [at for at, name in enumerate(columns) if name not in ("version", "problem") or any(r[at] for r in rows)]
    page.table([columns[at] for at in used], [[row[at] for at in used] for row in rows])


def files(page: Page, facts: Facts) -> None:
    page.heading("Files", "Who recorded them, where, and with which version.")
    page.table(
        ("file", "recorder", "host", "from", "to", "messages", "size", "compression", "complete"),
        [_file(file) for file in facts.contents.files],
    )


def _file(file: File) -> tuple[Any, ...]:
    info, version = file.info, file.recorder.get("version", "")
    ends = (moment(info.start_ns), moment(info.end_ns)) if info.messages else (None, None)
    recorder = info.library or None if not version or version in info.library else f"{info.library} {version}".strip()
    complete = "yes" if info.complete else "no"
    return (
        info.path.name,
        recorder,
        info.host or None,
        *ends,
        info.messages,
        size(info.size),
        info.compression,
        complete,
    )


SECTIONS: Final = (
    summary, missing, silences, deadlines, topics, over_time, latency, lifetimes, types, files,
)  # fmt: skip
"""In the order in which somebody looks for the cause of a failure."""
OF_MESSAGES: Final = (deadlines, topics, over_time, latency, lifetimes)
"""Sections that are left out where there are no messages."""


More = Callable[[Page, Facts], None]
"""Writes further sections."""

_NAMED: Final = 20


def facts_of(
    contents: Contents,
    *,
    every: float | None = None,
    deadline: float | None = None,
    measure: Measure = measured_here,
    progress: Progress = no_progress,
) -> Facts:
    """All that is known of recordings. `every`: seconds of an interval of the plots, None: about a hundred in all.
    `deadline`: seconds after a message until the next one. `measure`: who reads the messages.

    Errors: ValueError for intervals that are too short, OSError, and those of `measure`.
    """
    grid = grid_of(contents.since_ns, contents.until_ns, every, deadline)
    topics, damage = measure(contents, grid, progress)
    return Facts(contents, grid, topics, damage)


def look_into(source: Source, output: str | Path, progress: Progress = no_progress) -> Contents:
    """The contents of recordings by their indexes; checks first that the page has a place. `progress` is told of files.

    Errors: FileNotFoundError, FileExistsError, RecordingError where nothing can be read.
    """
    path = place(output)
    refuse_standard_output(path)
    if path.suffix == SUFFIX:
        raise FileExistsError(f"{path} has the name of a recording: name a page, as report.html")
    if not is_remote(path):
        _check_place(path)
    return contents_of(find_recordings(source), progress)


def _check_place(path: Path) -> None:
    """An older page may be replaced, and an empty file: nothing else, such as the recording itself."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for {path.name}")
    if path.is_dir():
        raise FileExistsError(f"{path} is a folder: name a file in it")
    if path.exists() and not (path.is_file() and _is_page(path)):
        raise FileExistsError(f"{path} exists, and is no page: name another file, or remove it")


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(BEGIN)) in (BEGIN.encode(), b"")


def write(facts: Facts, output: str | Path, took: float, more: Sequence[More] = ()) -> tuple[Check, ...]:
    """Writes the page, and gives its checks, the worst first. `took`: seconds that the footer tells."""
    checks = verdict(facts)
    page = Page("Report", subtitle(facts))
    page.verdict(checks)
    for section in (*SECTIONS, *more):
        if facts.topics or section not in OF_MESSAGES:
            section(page, facts)
    paths = [str(file.info.path) for file in facts.contents.files]
    others = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    told = f"Made by rtmw report in {took:.1f} s, from {', '.join(paths[:_NAMED])}{others}"
    with written_whole(place(output), replace=True) as temporary:
        temporary.write_text(page.html(told), encoding="utf-8")
    return checks


def report(
    source: Source, output: str | Path, *, every: float | None = None, deadline: float | None = None
) -> tuple[Check, ...]:
    """Write one HTML page about recordings; its checks, the worst first. Errors: as `look_into` and `facts_of`."""
    begin = CLOCK.monotonic()
    facts = facts_of(look_into(source, output), every=every, deadline=deadline)
    return write(facts, output, CLOCK.monotonic() - begin)
