"""`rtmw relay`: frames of a capture in words, what the rules let an agent order, what is wrong with a file; what waits
in a relay that runs, what became of an order, and what its operator does.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from rtmw.cli.common import CommandError
from rtmw.cli.quantities import argument, count
from rtmw.cli.show import Cell, Table, counted, duration, say, show, show_json, size, warn
from rtmw.clock import CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rtmw.net.security.rules import Verdict
    from rtmw.relay.frame import Frame, Splitter
    from rtmw.relay.policy import Judged, Policy
    from rtmw.relay.rows import Row
    from rtmw.relay.settings import Agent, Relay, Subject

__all__ = ["add_commands"]

ACTS = {
    "hold": ("WHOM", "send nothing to an agent, or of a stream SOURCE:DESTINATION, until it is released"),
    "release": ("WHOM", "send again to an agent, or of a stream, that was held, or stopped behind a failure"),
    "requeue": ("ORDER", "send an order that failed once more, out of order, under a new number"),
    "resend": ("ORDER", "send an order again now that is on its way and not confirmed"),
    "drop": ("ORDER", "end an order that is open; its source is told"),
}
CHUNK = 1 << 16
LEAST_TIME = 1 << 58
"""In nanoseconds since 1970; no other number of an answer is as large."""
MOST_SHOWN = 60
"""Characters of data in a table."""


def add_commands(commands: Any, add: Callable[..., argparse.ArgumentParser]) -> None:
    """`rtmw relay frame|explain|check|agents|queue|show`, and ACTS."""
    kinds = commands.add_parser("relay", help="orders between agents: decode frames, explain and check the rules")
    kinds = kinds.add_subparsers(metavar="COMMAND", required=True)
    parser = add(kinds, "frame", partial(_run, "frame"), "show the frames of a capture of one direction")
    parser.add_argument("file", metavar="FILE", help="bytes as one side sent them; - is standard input")
    parser.add_argument("--config", metavar="FILE", help="settings with [relay]: header, types, commands, checksum")
    parser.add_argument("--charset", default="utf-8", help="of the data, for showing (default utf-8)")
    parser = add(kinds, "explain", partial(_run, "explain"), "say whether an agent may send an order, and why")
    parser.add_argument("agent", metavar="FROM", help="its name in the settings")
    parser.add_argument("to", metavar="TO", help="an agent or a subject")
    parser.add_argument("command", metavar="COMMAND", help="one letter, such as I, U or D")
    parser.add_argument("--performative", metavar="NAME", help="of a KQML body, such as tell")
    parser.add_argument("--file", metavar="FILE", required=True, help="settings of the node with the relay")
    parser = add(kinds, "check", partial(_run, "check"), "say what a relay would do with a file; status 1 for advice")
    parser.add_argument("file", metavar="FILE", help="settings of the node with the relay")
    parser.add_argument(
        "--on", metavar="FOLDER", type=Path, help="`data` of a node: list orders it would judge otherwise"
    )
    _add_operation(kinds, add)
    _add_audit(kinds, add)


def _add_audit(kinds: Any, add: Callable[..., argparse.ArgumentParser]) -> None:
    audit = kinds.add_parser("audit", help="the record of a relay: show it, prove it, hand it out")
    audit = audit.add_subparsers(metavar="COMMAND", required=True)
    parser = add(audit, "verify", verify_command, "say whether the record is what was sealed; status 1 if it is not")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="`data` of the node, or the record itself")
    parser.add_argument("--keys", metavar="FOLDER", type=Path, help="with ca.pem: whose nodes may sign")
    parser.add_argument("--heads", metavar="FILE", type=Path, help="a line for each order with a head that came")
    for name, help in (("show", "show rows as a table"), ("export", "write rows with their data to standard output")):
        parser = add(audit, name, audit_command, help)
        parser.add_argument("folder", metavar="FOLDER", type=Path, help="`data` of the node, or the record itself")
        parser.add_argument("--agent", metavar="NAME", help="rows that name this agent")
        parser.add_argument("--order", metavar="ORDER", type=count, help="rows of this order")
        for option, which in (("--since", "at this time or later"), ("--until", "before this time")):
            parser.add_argument(option, metavar="TIME", type=argument(_time), help=f"rows {which}: 2026-11-29T13:44")
        parser.add_argument("--file", metavar="FILE", type=Path, help="settings with [[agent]]: their charsets")
    parser.add_argument("--format", choices=("jsonl", "csv"), default="jsonl", help="of the lines (default jsonl)")


def _add_operation(kinds: Any, add: Callable[..., argparse.ArgumentParser]) -> None:
    parsers = [add(kinds, "agents", agents_command, "show who is connected to a relay that runs, and what waits")]
    parsers += [add(kinds, "queue", queue_command, "show the orders that wait in a relay that runs, by priority")]
    parsers[-1].add_argument("agent", metavar="AGENT", nargs="?", default="", help="for this one (default: for all)")
    parsers += [add(kinds, "show", show_command, "show every row of an order, also where no relay runs")]
    parsers[-1].add_argument("order", metavar="ORDER", type=count, help="its number")
    for verb, (whom, what) in ACTS.items():
        parsers += [add(kinds, verb, partial(act_command, verb), what)]
        help = "the number of an order" if whom == "ORDER" else "the name of an agent, or SOURCE:DESTINATION"
        parsers[-1].add_argument("whom", metavar=whom, type=count if whom == "ORDER" else str, help=help)
    for parser in parsers:
        place = parser.add_mutually_exclusive_group(required=True)
        place.add_argument("--file", metavar="FILE", type=Path, help="settings of the node with the relay")
        place.add_argument("--data", metavar="FOLDER", type=Path, help="`data` of that node")


def _run(name: str, arguments: argparse.Namespace) -> int:
    status: int = getattr(import_module("rtmw.cli.relay"), f"{name}_command")(arguments)
    return status


def frame_command(arguments: argparse.Namespace) -> int:
    """Status 1: some bytes are no frame; they are counted by cause."""
    from rtmw.relay.frame import FORM, Splitter
    from rtmw.relay.settings import read_relay

    relay = read_relay(Path(arguments.config)) if arguments.config else None
    splitter = Splitter(relay.checksum, relay.form) if relay else Splitter()
    form = relay.form if relay else FORM
    try:
        "".encode(arguments.charset)
        with open(sys.stdin.fileno() if arguments.file == "-" else arguments.file, "rb", buffering=0) as file:
            frames = [frame for chunk in iter(partial(file.read, CHUNK), b"") for frame in splitter.feed(chunk)]
    except (OSError, LookupError) as error:
        raise CommandError(f"{arguments.file}: {getattr(error, 'strerror', None) or error}") from None
    rows = [_frame_row(one, form.answer, form.alert, arguments.charset) for one in frames]
    bad = dict(splitter.bad)
    if arguments.json:
        show_json({"frames": rows, "checksum": splitter.checksum, "bad": bad, "cut": splitter.waiting})
    else:
        columns = ("from", "to", "stamp", "what", "command", "answers", "bytes", "data")
        cells = [tuple(_short(row[name]) for name in columns) for row in rows]
        show(Table(f"{counted(len(rows), 'frame')}, checksum {splitter.checksum}", columns, cells))
        _say_bad(splitter)
    return int(bool(bad or splitter.waiting))


def _say_bad(splitter: Splitter) -> None:
    for cause, number in splitter.bad.items():
        warn(f"rtmw: {counted(number, 'place')} with no frame: {cause}; reading went on behind the next line feed")
    if splitter.waiting:
        warn(f"rtmw: the last frame is cut after {counted(splitter.waiting, 'byte')}")


def _short(cell: Any) -> Any:
    return f"{cell[: MOST_SHOWN - 1]}…" if isinstance(cell, str) and len(cell) > MOST_SHOWN else cell


def _frame_row(frame: Frame, answer: bytes, alert: bytes, charset: str) -> dict[str, Any]:
    from rtmw.relay.frame import readable
    from rtmw.relay.policy import command_of

    row: dict[str, Any] = {"from": readable(frame.source), "to": readable(frame.destination)}
    row |= {"stamp": frame.stamp.decode("latin-1"), "what": "order", "command": command_of(frame.command)}
    row["answers"] = None
    data = frame.data
    if frame.type == answer:
        stamp, data = frame.answers[0], frame.body
        what = "alert" if frame.command == alert else "answer" if data else "receipt"
        row |= {"what": what, "answers": stamp.decode("latin-1")}
    return row | {"bytes": len(frame.data), "data": data.decode(charset, "replace")}


def explain_command(arguments: argparse.Namespace) -> int:
    """Status 0, also where it is denied: that is an answer."""
    policy = _policy(Path(arguments.file))
    agent = _named(policy.relay.agents, arguments.agent, "agent")
    to = _named(policy.relay.addressees, arguments.to, "agent or subject")
    command = _command(arguments.command)
    if len(command) != 1:
        raise CommandError(f"{arguments.command!r} is no command: a frame has one letter there, such as I")
    performative = (arguments.performative or "").lower() or None
    judged = policy.order(agent, to, command, performative)
    followers = [one.name for one in policy.followers(to) if one is not agent] if _is_subject(to) else []
    rules = _considered(policy, agent, to, command, performative)
    if arguments.json:
        told = {"from": agent.name, "to": to.name, "command": arguments.command, "performative": arguments.performative}
        show_json({**told, **_as_row(judged), "recipients": followers, "rules": _named_rows(rules)})
        return 0
    found, why = ("allowed", "") if not judged.why else ("denied", judged.why)
    place = judged.verdict.place if judged.verdict else None
    title = f"{agent.name} to {to.name}, command {arguments.command}, rules {policy.relay.rules.version}"
    columns = ("verdict", "why", "rule", "terms", "recipients")
    show(Table(title, columns, [(found, why or None, place, _terms(judged), ", ".join(followers) or None)]))
    if rules.rows:
        show(rules)
    return 0


def _command(word: str) -> bytes:
    """A letter, or `0x07` as rules have it."""
    try:
        return bytes.fromhex(word[2:]) if word.startswith("0x") else word.encode("latin-1", "replace")
    except ValueError:
        return b""


def _policy(path: Path) -> Policy:
    from rtmw.relay.policy import Policy
    from rtmw.relay.settings import read_relay

    return Policy(read_relay(path))


def _is_subject(one: Agent | Subject) -> Any:
    from rtmw.relay.settings import Subject

    return isinstance(one, Subject)


def _named(there: tuple[Any, ...], name: str, what: str) -> Any:
    found = next((one for one in there if one.name == name), None)
    if found is None:
        names = ", ".join(sorted(one.name for one in there)) or "none"
        raise CommandError(f"The settings have no {what} {name!r}; there are {names}.")
    return found


def _as_row(judged: Judged) -> dict[str, Any]:
    from rtmw.cli.node_explain import as_row

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
    """Each rule for the agent, with what it says by itself."""
    from rtmw.net.security.names import AGENT
    from rtmw.net.security.rules import RuleTable
    from rtmw.relay.policy import subject_of

    peer, rows = AGENT + agent.name, list[tuple[str, str, str]]()
    subject = subject_of(to.name, command, performative)
    for rule in policy.relay.rules.rules:
        if rule.is_for(peer):
            alone: Verdict = RuleTable((rule,)).judge(peer, "order", subject)
            says = "allows it" if alone.allowed else "denies it" if alone.cause == "deny" else "-"
            rows.append((rule.place, ", ".join(rule.allows.get("order", ())) or "-", says))
    return Table(f"Rules for {agent.name}, in their order", ("rule", "order", "says of this"), rows)


def check_command(arguments: argparse.Namespace) -> int:
    """Status 1 where anything is most likely not meant; a mistake is an error with file and line."""
    from rtmw.relay.settings import advice, read_relay

    relay = read_relay(Path(arguments.file))
    found, changed = advice(relay), _changed(relay, arguments.on) if arguments.on else None
    agents, subjects = _agents_table(relay), _subjects_table(relay)
    if arguments.json:
        named = {table.title.lower(): _named_rows(table) for table in (agents, subjects)}
        told = {"file": arguments.file, "rules": relay.rules.version, **named, "advice": dict(found)}
        show_json(told | ({} if changed is None else {"changed": _named_rows(changed)}))
        return int(bool(found or (changed and changed.rows)))
    for table in (agents, subjects):
        if table.rows:
            show(table)
    say(
        f"It listens at {', '.join(relay.listen)}; an agent gives up after {duration(relay.t1 * (relay.n1 + 1))}, the "
        f"relay after {duration(relay.t2 * (relay.n2 + 1))}; rules {relay.rules.version}."
    )
    for what, mend in found.items():
        warn(f"rtmw: {what}: {mend}")
    if changed is not None:
        show(changed)
    return int(bool(found or (changed and changed.rows)))


def _named_rows(table: Table) -> list[dict[str, Cell]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def _changed(relay: Relay, data: Path) -> Table:
    """Orders of a record on which these rules say something else than the ones that judged them."""
    from rtmw.relay.frame import readable
    from rtmw.relay.policy import Policy, command_of
    from rtmw.relay.rows import frame_of

    policy, cells, judged = Policy(relay), list[tuple[Cell, ...]](), 0
    for row in _rows(data / "relay"):
        if (row.kind == "STORED" and row.rule) or (row.kind == "REFUSED" and not row.is_allowed):
            judged += 1
            frame, why = frame_of(row.head, row.body), policy.judge_again(row)
            if bool(why) != (row.kind == "REFUSED"):
                of = (
                    row.order or None,
                    _when(row.at),
                    row.source,
                    readable(frame.destination),
                    command_of(frame.command),
                )
                cells.append((*of, row.cause or "allowed", why or "allowed", row.version or None))
    columns = ("order", "at", "from", "to", "command", "was", "would be", "by rules")
    return Table(f"{counted(len(cells), 'verdict')} of {judged} would change", columns, cells)


def _rows(folder: Path) -> Iterator[Row]:
    """The record of a relay, whether that runs or not."""
    import rtmw
    from rtmw.relay.rows import Row

    try:
        with rtmw.Log(folder / "record", Row, create=False) as log:
            yield from (record.value for record in log.read())
    except FileNotFoundError:
        raise CommandError(f"{folder} has no record; is it in `data` of the node?") from None


def _agents_table(relay: Relay) -> Table:
    from rtmw.relay.frame import readable

    def known(one: Agent) -> str:
        uid = None if one.uid is None else f"uid {one.uid}"
        dialled = f"dialled at {one.dial}" if one.dial else None
        return ", ".join(filter(None, (f"from {one.origin}" if one.origin else None, uid, dialled)))

    rows = [(one.name, readable(one.address), known(one), one.absent, one.on_failure, one.id) for one in relay.agents]
    return Table("Agents", ("name", "address", "known by", "absent", "on_failure", "id"), rows)


def _subjects_table(relay: Relay) -> Table:
    from rtmw.relay.policy import Policy

    policy = Policy(relay)
    rows = [
        (one.name, "group" if one.group else "followed", ", ".join(each.name for each in policy.followers(one)) or None)
        for one in relay.subjects
    ]
    return Table("Subjects", ("address", "kind", "goes to"), rows)


# ---- operation ----


def _folder(arguments: argparse.Namespace) -> Path:
    """The relay's own, with its record."""
    if arguments.file is None:
        return Path(arguments.data) / "relay"
    from rtmw.settings import SettingsFile

    data = SettingsFile.read(arguments.file).values.get("data")
    if not isinstance(data, str):
        raise CommandError(f"{arguments.file} says no data, the folder of the record; name it with --data FOLDER")
    return Path(arguments.file).parent / data / "relay"


def _asked(arguments: argparse.Namespace, verb: str, whom: str = "") -> dict[str, Any]:
    from rtmw.relay.operation import ask

    return ask(_folder(arguments), verb, whom)


def agents_command(arguments: argparse.Namespace) -> int:
    """Times are ages; of `held`, agents and streams."""
    return _show_rows(arguments, _asked(arguments, "agents"), "agent", ())


def queue_command(arguments: argparse.Namespace) -> int:
    """Below the title, the oldest order of each priority."""
    found = _asked(arguments, "queue", arguments.agent)
    oldest = {row["priority"]: row for row in sorted(found["rows"], key=lambda row: row["oldest"], reverse=True)}
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
    found = cast("Cell", value)
    return duration(max(0.0, (CLOCK.wall_ns() - found) / 1e9)) if _is_time(found) else found


def _is_time(value: Cell) -> TypeGuard[int]:
    return isinstance(value, int) and value > LEAST_TIME


def act_command(verb: str, arguments: argparse.Namespace) -> int:
    """Status 1: nothing was done, and the reason is said."""
    found = _asked(arguments, verb, str(arguments.whom))
    if arguments.json:
        show_json(found)
    elif found["done"]:
        say(f"{found['words']}.")
    else:
        warn(f"rtmw: {found['words']}")
    return int(not found["done"])


def show_command(arguments: argparse.Namespace) -> int:
    """Every row of an order, from the record itself."""
    from rtmw.relay.rows import STORED, frame_of
    from rtmw.relay.settings import read_relay

    folder, number = _folder(arguments), arguments.order
    rows = [row for row in _rows(folder) if row.order == number]
    stored = next((row for row in rows if row.kind == STORED), None)
    if stored is None:
        raise CommandError(f"the record in {folder} has no order {number}; rtmw relay queue shows those that wait")
    charsets = {one.name: one.charset for one in read_relay(arguments.file).agents} if arguments.file else {}
    frame = frame_of(stored.head, stored.body)
    text = frame.data.decode(charsets.get(stored.source, "utf-8"), "replace")
    parts = [_part(rows, stored, name) for name in stored.recipients]
    if arguments.json:
        show_json({"order": number, "stamp": frame.stamp, "text": text, "recipients": parts, "rows": rows})
        return 0
    title = f"Order {number}: {stored.source} to {stored.destination}, stamp {frame.stamp.decode('latin-1')}"
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
    received = came.head[8:30].decode("latin-1") if came and came.head else None
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


def _time(text: str) -> datetime:
    """With this host's zone, if it has none. Raises ValueError."""
    return datetime.fromisoformat(text).astimezone()


def _record(folder: Path) -> Path:
    found = next((one for one in (folder / "relay" / "record", folder / "record", folder) if one.is_dir()), folder)
    if not (found / "log").exists():
        raise CommandError(f"{folder} has no record of a relay; name `data` of its node")
    return found


def verify_command(arguments: argparse.Namespace) -> int:
    """Status 1: something is not as it was sealed."""
    from rtmw.relay.seals import verify

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
    import rtmw
    from rtmw.relay.rows import Row
    from rtmw.relay.settings import read_relay

    charsets = {one.name: one.charset for one in read_relay(arguments.file).agents} if arguments.file else {}
    start = arguments.since or rtmw.Start.EARLIEST
    with rtmw.Log(_record(arguments.folder), Row, create=False) as log, log.read(start) as records:
        for record in records:
            row = record.value
            if arguments.until and row.at >= arguments.until.timestamp() * 1e9:
                break
            named = (row.source, row.destination, row.recipient, *row.recipients)
            if arguments.order in (None, row.order) and arguments.agent in (None, *named):
                yield _audit_row(record.position, row, charsets.get(row.source, "utf-8"))


def _audit_row(position: int, row: Row, charset: str) -> dict[str, Any]:
    from rtmw.relay.rows import OF_RECORD

    found = {"position": position} | vars(row) | {"at": _when(row.at), "stamp": row.head[8:30].decode("latin-1")}
    found |= {"head": row.head.hex(), "digest": row.digest.hex(), "recipients": ", ".join(row.recipients)}
    return found | {"data": row.body.hex() if row.kind in OF_RECORD else row.body.decode(charset, "replace")}


def _export(rows: Iterator[dict[str, Any]], form: str) -> None:
    line = io.StringIO()
    for number, row in enumerate(rows):
        del row["body"]
        if form == "jsonl":
            show_json(row)
            continue
        writer = csv.DictWriter(line, list(row), lineterminator="")
        if not number:
            say(",".join(row))
        writer.writerow(row)
        say(line.getvalue())
        line.seek(0)
        line.truncate()
