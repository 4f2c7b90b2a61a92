"""Commands of `rtmw relay`: frames of a capture in words, what the rules let an agent order, what is wrong with a
file; what waits in a relay that runs, what became of an order, and what its operator does.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import rtmw
from rtmw.cli.common import CommandError
from rtmw.cli.node_explain import as_row
from rtmw.cli.parsing import Commands, argument, count, runs
from rtmw.cli.terminal import Cell, Table, counted, duration, say, show, show_json, size, warn
from rtmw.clock import CLOCK
from rtmw.net.security.names import AGENT
from rtmw.net.security.rules import RuleTable
from rtmw.relay import settings
from rtmw.relay.frame import Form, Frame, Kind, Splitter, frame_of, kind_of, readable, stamp_of
from rtmw.relay.operation import Unsure, ask
from rtmw.relay.policy import Judged, Policy, command_of, subject_of
from rtmw.relay.rows import OF_RECORD, REFUSED, STORED, Row
from rtmw.relay.seals import verify
from rtmw.relay.settings import Agent, Relay, Subject, advice, read_relay
from rtmw.settings import SettingsFile

__all__ = [
    "act_command", "agents_command", "audit_command", "check_command", "explain_command", "frame_command",
    "queue_command", "show_command", "verify_command",
]  # fmt: skip

UNSURE = 3
"""The status of an act that may be done, or not."""
CHUNK = 1 << 16
LEAST_TIME = 1 << 58
"""Numbers of an answer from here on are times in nanoseconds since 1970; no other number is as large."""
MOST_SHOWN = 60
"""Characters of data in a table."""


_ACTS: Final = {
    "hold": ("WHOM", "send nothing to an agent, or of a stream SOURCE:DESTINATION, until it is released"),
    "release": ("WHOM", "send again to an agent, or of a stream, that was held, or stopped behind a failure"),
    "requeue": ("ORDER", "send an order that failed once more, out of order, under a new number"),
    "resend": ("ORDER", "send an order again now that is on its way and not confirmed"),
    "drop": ("ORDER", "end an order that is open; its source is told"),
}
COMMANDS: Final[Commands] = {
    "frame": ("relay:add_frame", "show the frames of a capture of one direction"),
    "explain": ("relay:add_explain", "say whether an agent may send an order, and why"),
    "check": ("relay:add_check", "say what a relay would do with a file; status 1 for advice"),
    "agents": ("relay:add_agents", "show who is connected to a relay that runs, and what waits"),
    "queue": ("relay:add_queue", "show the orders that wait in a relay that runs, by priority"),
    "show": ("relay:add_show", "show every row of an order, also where no relay runs"),
    **{verb: ("relay:add_act", help) for verb, (_, help) in _ACTS.items()},
    "audit": ("relay:AUDIT", "the record of a relay: show it, prove it, hand it out"),
}
AUDIT: Final[Commands] = {
    "verify": ("relay:add_verify", "say whether the record is what was sealed; status 1 if it is not"),
    "show": ("relay:add_rows", "show rows as a table"),
    "export": ("relay:add_export", "write rows with their data to standard output"),
}


def add_frame(parser: argparse.ArgumentParser) -> None:
    runs(parser, frame_command, domain=False)
    parser.add_argument("file", metavar="FILE", help="bytes as one side sent them; - is standard input")
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="settings with [relay]: header, types, commands, checksum"
    )
    parser.add_argument("--charset", default="utf-8", help="of the data, for showing (default utf-8)")


def add_explain(parser: argparse.ArgumentParser) -> None:
    runs(parser, explain_command, domain=False)
    parser.add_argument("agent", metavar="FROM", help="its name in the settings")
    parser.add_argument("to", metavar="TO", help="an agent or a subject")
    parser.add_argument("command", metavar="COMMAND", help="one letter, such as I, U or D")
    parser.add_argument("--performative", metavar="NAME", help="of a KQML body, such as tell")
    parser.add_argument("--file", metavar="FILE", type=Path, required=True, help="settings of the node with the relay")


def add_check(parser: argparse.ArgumentParser) -> None:
    runs(parser, check_command, domain=False)
    parser.add_argument("file", metavar="FILE", type=Path, help="settings of the node with the relay")
    parser.add_argument(
        "--on", metavar="FOLDER", type=Path, help="`data` of a node: list orders it would judge otherwise"
    )


def add_agents(parser: argparse.ArgumentParser) -> None:
    runs(parser, agents_command, domain=False)
    _add_place(parser)


def add_queue(parser: argparse.ArgumentParser) -> None:
    runs(parser, queue_command, domain=False)
    parser.add_argument("agent", metavar="AGENT", nargs="?", default="", help="for this one (default: for all)")
    _add_place(parser)


def add_show(parser: argparse.ArgumentParser) -> None:
    runs(parser, show_command, domain=False)
    parser.add_argument("order", metavar="ORDER", type=count, help="its number")
    _add_place(parser)


def add_act(parser: argparse.ArgumentParser) -> None:
    """The name of the command says which act."""
    runs(parser, act_command, domain=False)
    verb = parser.prog.rpartition(" ")[2]
    whom, _ = _ACTS[verb]
    help = "the number of an order" if whom == "ORDER" else "the name of an agent, or SOURCE:DESTINATION"
    parser.set_defaults(verb=verb)
    parser.add_argument("whom", metavar=whom, type=count if whom == "ORDER" else str, help=help)
    _add_place(parser)


def _add_place(parser: argparse.ArgumentParser) -> None:
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--file", metavar="FILE", type=Path, help="settings of the node with the relay")
    place.add_argument("--data", metavar="FOLDER", type=Path, help="`data` of that node")


def add_verify(parser: argparse.ArgumentParser) -> None:
    runs(parser, verify_command, domain=False)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="`data` of the node, or the record itself")
    parser.add_argument("--keys", metavar="FOLDER", type=Path, help="with ca.pem: whose nodes may sign")
    parser.add_argument("--heads", metavar="FILE", type=Path, help="a line for each order with a head that came")


def add_rows(parser: argparse.ArgumentParser) -> None:
    runs(parser, audit_command, domain=False)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="`data` of the node, or the record itself")
    parser.add_argument("--agent", metavar="NAME", help="rows that name this agent")
    parser.add_argument("--order", metavar="ORDER", type=count, help="rows of this order")
    for option, which in (("--since", "at this time or later"), ("--until", "before this time")):
        parser.add_argument(option, metavar="TIME", type=argument(_time), help=f"rows {which}: 2026-11-29T13:44")
    parser.add_argument("--file", metavar="FILE", type=Path, help="settings with [[agent]]: their charsets")


def add_export(parser: argparse.ArgumentParser) -> None:
    add_rows(parser)
    parser.add_argument("--format", choices=("jsonl", "csv"), default="jsonl", help="of the lines (default jsonl)")


def _time(text: str) -> datetime:
    """Returns a time, with this host's zone if it has none. Raises ValueError."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise ValueError(f"{text!r} is no time; write it as 2026-11-29T13:44, or 2026-11-29") from None


def frame_command(arguments: argparse.Namespace) -> int:
    """Status 1: some bytes are no frame; they are counted by cause."""
    relay = read_relay(arguments.config) if arguments.config else Relay()
    splitter = Splitter(relay.checksum, relay.form)
    try:
        charset = settings.charset(arguments.charset)
        with open(sys.stdin.fileno() if arguments.file == "-" else arguments.file, "rb", buffering=0) as file:
            frames = [frame for chunk in iter(partial(file.read, CHUNK), b"") for frame in splitter.feed(chunk)]
    except OSError as error:
        raise CommandError(f"{arguments.file}: {error.strerror}") from None
    except ValueError as error:
        raise CommandError(f"--charset: {error}") from None
    rows = [_frame_row(one, relay.form, charset) for one in frames]
    bad = dict(splitter.bad)
    if arguments.json:
        show_json({"frames": rows, "checksum": splitter.checksum, "bad": bad, "cut": splitter.waiting})
    else:
        columns = ("from", "to", "stamp", "what", "command", "answers", "bytes", "data")
        cells = [tuple(_short(row[name]) for name in columns) for row in rows]
        show(Table(f"{counted(len(rows), 'frame')}, checksum {splitter.checksum}", columns, cells))
        for cause, number in bad.items():
            warn(f"rtmw: {counted(number, 'place')} with no frame: {cause}; reading went on behind the next line feed")
        if splitter.waiting:
            warn(f"rtmw: the last frame is cut after {counted(splitter.waiting, 'byte')}")
    return int(bool(bad or splitter.waiting))


def _short(cell: Any) -> Any:
    return f"{cell[: MOST_SHOWN - 1]}…" if isinstance(cell, str) and len(cell) > MOST_SHOWN else cell


def _frame_row(frame: Frame, form: Form, charset: str) -> dict[str, Any]:
    kind = kind_of(frame, form) or Kind.ORDER
    answered, data = (None, frame.data) if kind is Kind.ORDER else (_latin(frame.answers[0]), frame.body)
    return {
        "from": readable(frame.source),
        "to": readable(frame.destination),
        "stamp": _latin(frame.stamp),
        "what": kind.name.lower(),
        "command": command_of(frame.command),
        "answers": answered,
        "bytes": len(frame.data),
        "data": data.decode(charset, "replace"),
    }


def _latin(stamp: bytes) -> str:
    return stamp.decode("latin-1")


def explain_command(arguments: argparse.Namespace) -> int:
    """Status 0, also where it is denied: that is an answer."""
    policy = Policy(read_relay(arguments.file))
    agent = _named(policy.relay.agents, arguments.agent, "agent")
    to = _named(policy.relay.addressees, arguments.to, "agent or subject")
    command = _command(arguments.command)
    if len(command) != 1:
        raise CommandError(f"{arguments.command!r} is no command: a frame has one letter there, such as I")
    performative = arguments.performative.lower() if arguments.performative else None
    judged = policy.order(agent, to, command, performative)
    followers = [one for one in policy.followers(to) if one != agent.name] if isinstance(to, Subject) else []
    rules = _considered(policy, agent, to, command, performative)
    if arguments.json:
        told = {"from": agent.name, "to": to.name, "command": arguments.command, "performative": arguments.performative}
        show_json({**told, **_as_row(judged), "recipients": followers, "rules": rules.named()})
        return 0
    found, place = "denied" if judged.why else "allowed", judged.verdict.place if judged.verdict else None
    title = f"{agent.name} to {to.name}, command {arguments.command}, rules {policy.relay.rules.version}"
    columns = ("verdict", "why", "rule", "terms", "recipients")
    show(Table(title, columns, [(found, judged.why or None, place, _terms(judged), ", ".join(followers) or None)]))
    if rules.rows:
        show(rules)
    return 0


def _command(word: str) -> bytes:
    """A letter, or `0x07` as rules have it."""
    try:
        return bytes.fromhex(word[2:]) if word.startswith("0x") else word.encode("latin-1", "replace")
    except ValueError:
        return b""


def _named(there: tuple[Any, ...], name: str, what: str) -> Any:
    found = next((one for one in there if one.name == name), None)
    if found is None:
        names = ", ".join(sorted(one.name for one in there)) or "none"
        raise CommandError(f"The settings have no {what} {name!r}; there are {names}.")
    return found


def _as_row(judged: Judged) -> dict[str, Any]:
    row = as_row(judged.verdict) if judged.verdict else {"allowed": False, "why": judged.why}
    return row | ({"priority": judged.priority, "lifetime": judged.lifetime or None} if not judged.why else {})


def _terms(judged: Judged) -> str | None:
    verdict = judged.verdict
    if judged.why or verdict is None or verdict.rule is None:
        return None
    parts = [f"priority {judged.priority} of at most {verdict.max_priority}"]
    parts += [f"lifetime {duration(judged.lifetime)}"] if judged.lifetime else []
    parts += [f"{size(verdict.max_size)} an order"] if verdict.max_size else []
    parts += [f"{verdict.rule.max_orders} orders a second"] if verdict.rule.max_orders else []
    return ", ".join(parts)


def _considered(policy: Policy, agent: Agent, to: Agent | Subject, command: bytes, performative: str | None) -> Table:
    """Returns a table of each rule for the agent, with what it says by itself."""
    peer, rows = AGENT + agent.name, list[tuple[str, str, str]]()
    subject = subject_of(to.name, command, performative)
    for rule in policy.relay.rules.rules:
        if rule.is_for(peer):
            alone = RuleTable((rule,)).judge(peer, "order", subject)
            says = "allows it" if alone.allowed else "denies it" if alone.cause == "deny" else "-"
            rows.append((rule.place, ", ".join(rule.allows.get("order", ())) or "-", says))
    return Table(f"Rules for {agent.name}, in their order", ("rule", "order", "says of this"), rows)


def check_command(arguments: argparse.Namespace) -> int:
    """Status 1 where anything is most likely not meant; a mistake is an error with file and line."""
    relay = read_relay(arguments.file)
    found, changed = advice(relay), _changed(relay, arguments.on) if arguments.on else None
    status = int(bool(found or (changed and changed.rows)))
    tables = _agents_table(relay), _subjects_table(relay)
    if arguments.json:
        named = {table.title.lower(): table.named() for table in tables}
        told = {"file": str(arguments.file), "rules": relay.rules.version, **named, "advice": dict(found)}
        show_json(told | ({} if changed is None else {"changed": changed.named()}))
        return status
    for table in tables:
        if table.rows:
            show(table)
    say(
        f"It listens at {', '.join(relay.listen)}; an agent gives up after {duration(relay.t1 * (relay.n1 + 1))}, the "
        f"relay after {duration(relay.gives_up_after)}; rules {relay.rules.version}."
    )
    for what, mend in found.items():
        warn(f"rtmw: {what}: {mend}")
    if changed is not None:
        show(changed)
    return status


def _changed(relay: Relay, data: Path) -> Table:
    """Orders of a record on which these rules say something else than the ones that judged them."""
    policy, cells, judged = Policy(relay), list[tuple[Cell, ...]](), 0
    for _, row in _rows(data):
        if (row.kind == STORED and row.rule) or (row.kind == REFUSED and not row.is_allowed):
            judged += 1
            frame, why = frame_of(row.head, row.body), policy.judge_again(row)
            if bool(why) != (row.kind == REFUSED):
                to, command = readable(frame.destination), command_of(frame.command)
                was = row.order or None, _when(row.at), row.source, to, command, row.cause or "allowed"
                cells.append((*was, why or "allowed", row.version or None))
    columns = ("order", "at", "from", "to", "command", "was", "would be", "by rules")
    return Table(f"{counted(len(cells), 'verdict')} of {judged} would change", columns, cells)


def _record(folder: Path) -> Path:
    """`folder`: `data` of the node, or the record itself."""
    found = next((one for one in (folder / "relay" / "record", folder / "record", folder) if one.is_dir()), folder)
    if not (found / "log").exists():
        raise CommandError(f"{folder} has no record of a relay; name `data` of its node")
    return found


def _rows(folder: Path, start: rtmw.Start | datetime = rtmw.Start.EARLIEST) -> Iterator[tuple[int, Row]]:
    """The rows of a relay with their positions, whether it runs or not."""
    with rtmw.Log(_record(folder), Row, create=False) as log, log.read(start) as records:
        for record in records:
            yield record.position, record.value


def _charsets(settings: Path | None) -> dict[str, str]:
    """Returns the charsets of agents by their names."""
    return {one.name: one.charset for one in read_relay(settings).agents} if settings else {}


def _agents_table(relay: Relay) -> Table:
    def known(one: Agent) -> str:
        ways = {"from": one.origin, "uid": one.uid, "certificate": one.peer, "dialled at": one.dial}
        return ", ".join(f"{way} {what}" for way, what in ways.items() if what not in (None, ""))

    rows = [(one.name, readable(one.address), known(one), one.absent, one.on_failure, one.id) for one in relay.agents]
    return Table("Agents", ("name", "address", "known by", "absent", "on_failure", "id"), rows)


def _subjects_table(relay: Relay) -> Table:
    policy = Policy(relay)
    rows = [
        (one.name, "group" if one.group else "followed", ", ".join(policy.followers(one)) or None)
        for one in relay.subjects
    ]
    return Table("Subjects", ("address", "kind", "goes to"), rows)


# ---- operation ----


def _folder(arguments: argparse.Namespace) -> Path:
    """The relay's own, with its record."""
    if arguments.file is None:
        return Path(arguments.data) / "relay"
    data = SettingsFile.read(arguments.file).values.get("data")
    if not isinstance(data, str):
        raise CommandError(f"{arguments.file} says no data, the folder of the record; name it with --data FOLDER")
    return Path(arguments.file).parent / data / "relay"


def agents_command(arguments: argparse.Namespace) -> int:
    """Times are ages; of `held`, agents and streams."""
    return _show_rows(arguments, ask(_folder(arguments), "agents"), "agent", ())


def queue_command(arguments: argparse.Namespace) -> int:
    """Shows the queue of an agent; below the title stands the oldest order of each priority."""
    found = ask(_folder(arguments), "queue", arguments.agent)
    oldest = dict[int, dict[str, Any]]()
    for row in sorted(found["rows"], key=lambda row: (row["oldest"], row["order"])):
        oldest.setdefault(row["priority"], row)
    notes = [
        f"The oldest of priority {priority} is order {row['order']} for {row['to']}, {_cell(row['oldest'])} old"
        for priority, row in sorted(oldest.items(), reverse=True)
    ]
    return _show_rows(arguments, found, "order", notes)


def _show_rows(arguments: argparse.Namespace, found: dict[str, Any], what: str, notes: Sequence[str]) -> int:
    """The names of the columns are those of the fields."""
    rows, more = found["rows"], [f"{found['more']} more are not shown"] if found["more"] else []
    if arguments.json:
        show_json(found)
    else:
        columns = [name.replace("_", " ") for name in rows[0]] if rows else []
        cells = [[_cell(value) for value in row.values()] for row in rows]
        show(Table(counted(len(rows) + found["more"], what), columns, cells, [*notes, *more]))
    return 0


def _cell(value: Any) -> Cell:
    """A time, in nanoseconds since 1970, as the age that it has."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, cast("list[Any]", value))) or None
    is_time = isinstance(value, int) and value > LEAST_TIME
    return duration(max(0.0, (CLOCK.wall_ns() - value) / 1e9)) if is_time else value


def act_command(arguments: argparse.Namespace) -> int:
    """Status 1: nothing was done, and the reason is said; UNSURE: it may be done."""
    try:
        found = ask(_folder(arguments), arguments.verb, str(arguments.whom))
    except Unsure as error:
        found = {"done": None, "words": str(error)}
    if arguments.json:
        show_json(found)
    elif found["done"]:
        say(f"{found['words']}.")
    else:
        warn(f"rtmw: {found['words']}")
    return UNSURE if found["done"] is None else int(not found["done"])


def show_command(arguments: argparse.Namespace) -> int:
    """Every row of an order, from the record itself."""
    folder, number = _folder(arguments), arguments.order
    rows = [row for _, row in _rows(folder) if row.order == number]
    stored = next((row for row in rows if row.kind == STORED), None)
    if stored is None:
        raise CommandError(f"the record in {folder} has no order {number}; rtmw relay queue shows those that wait")
    frame = frame_of(stored.head, stored.body)
    text = frame.data.decode(_charsets(arguments.file).get(stored.source, "utf-8"), "replace")
    parts = [_part(rows, stored, name) for name in stored.recipients]
    if arguments.json:
        show_json({"order": number, "stamp": frame.stamp, "text": text, "recipients": parts, "rows": rows})
        return 0
    title = f"Order {number}: {stored.source} to {stored.destination}, stamp {_latin(frame.stamp)}"
    terms = f"priority {stored.priority}, {stored.rule or 'no rule'}, rules {stored.version}"
    times = ("stored", "sent", "received", "answered")
    cells = [(part["recipient"], *(_when(part[name]) for name in times), part["state"]) for part in parts]
    show(Table(title, ("recipient", *times, "state"), cells, [terms, f"Data: {_short(text)}"]))
    told = [(_when(row.at), row.kind, row.recipient or None, row.tries or None, _cause(row)) for row in rows]
    show(Table(counted(len(rows), "row"), ("at", "what", "recipient", "tries", "cause"), told))
    return 0


def _part(rows: list[Row], stored: Row, recipient: str) -> dict[str, Any]:
    """What became of an order at one recipient. `received`: the stamp of its receipt."""
    mine = [row for row in rows if row.recipient == recipient]
    sent = next((row.at for row in mine if row.kind == "SENT"), None)
    came = next((row for row in mine if row.kind in ("DELIVERED", "LATE")), None)
    state = next((row.kind for row in reversed(mine) if row.kind not in ("SENT", "HELD")), None)
    state = state or ("SENT" if sent else "STORED")
    received = _latin(stamp_of(came.head)) if came and came.head else None
    times = {"stored": stored.at, "sent": sent, "received": received, "answered": came.at if came else None}
    return {"recipient": recipient, **times, "state": state}


def _cause(row: Row) -> str | None:
    return f"{row.cause}, by uid {row.uid}" if row.uid >= 0 else row.cause or None


def _when(at: int | str | None) -> str | None:
    """Wall time, or a stamp as it came."""
    if not isinstance(at, int):
        return at
    return datetime.fromtimestamp(at / 1e9).astimezone().isoformat(" ", "milliseconds")


# ---- audit ----


def verify_command(arguments: argparse.Namespace) -> int:
    """Status 1: something is not as it was sealed."""
    folder = _record(arguments.folder)
    try:
        text: str = arguments.heads.read_text() if arguments.heads else ""
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{arguments.heads}: {getattr(error, 'strerror', None) or error}") from None
    found = verify(folder, arguments.keys, text.splitlines())
    if arguments.json:
        show_json(found)
        return int(bool(found.faults))
    reach = f"up to position {found.sealed}" if found.seals else "nowhere"
    say(f"{counted(found.seals, 'seal')}, {found.signed} with a right signature; rows are whole {reach}.")
    if found.end > found.sealed:
        say(f"{found.end - found.sealed} bytes behind that are not sealed, or not proved.")
    for name in dict.fromkeys(found.signers):
        say(f"Signed by {name}.")
    if found.held:
        say(f"Evidence reaches up to position {found.held}: the last head that somebody else has.")
    else:
        say("Evidence reaches as far as the last head that somebody else has; give those with --heads FILE.")
    for note in found.notes:
        say(f"{note[0].upper()}{note[1:]}.")
    for position, words in found.faults:
        warn(f"rtmw: position {position}: {words}")
    return int(bool(found.faults))


def audit_command(arguments: argparse.Namespace) -> int:
    """`show` and `export`."""
    rows = _audited(arguments)
    if "format" in arguments:
        _export(rows, arguments.format)
    elif arguments.json:
        show_json(list(rows))
    else:
        columns = ("position", "at", "kind", "order", "source", "destination", "recipient", "tries", "cause", "data")
        cells = [tuple(_short(row[name]) or None for name in columns) for row in rows]
        show(Table(counted(len(cells), "row"), columns, cells))
    return 0


def _audited(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    charsets = _charsets(arguments.file)
    for position, row in _rows(arguments.folder, arguments.since or rtmw.Start.EARLIEST):
        if arguments.until and row.at >= arguments.until.timestamp() * 1e9:
            break
        named = (row.source, row.destination, row.recipient, *row.recipients)
        if arguments.order in (None, row.order) and arguments.agent in (None, *named):
            yield _audit_row(position, row, charsets.get(row.source, "utf-8"))


def _audit_row(position: int, row: Row, charset: str) -> dict[str, Any]:
    found = {"position": position} | vars(row) | {"at": _when(row.at), "stamp": _latin(stamp_of(row.head))}
    found |= {"head": row.head.hex(), "digest": row.digest.hex(), "recipients": ", ".join(row.recipients)}
    return found | {"data": row.body.hex() if row.kind in OF_RECORD else row.body.decode(charset, "replace")}


def _export(rows: Iterator[dict[str, Any]], form: str) -> None:
    lines = csv.writer(cast("Any", SimpleNamespace(write=say)), lineterminator="")
    for number, row in enumerate(rows):
        del row["body"]
        if form == "jsonl":
            show_json(row)
            continue
        if not number:
            lines.writerow(row)
        lines.writerow(row.values())
