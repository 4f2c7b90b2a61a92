"""Objects as HTML in notebooks: tables whose every text is escaped. Jupyter calls `_repr_html_`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import islice
from reprlib import Repr
from typing import Any, Final, cast

from rtmw.latency import Latency
from rtmw.text.units import duration

_short: Final = Repr()
_short.maxstring = _short.maxother = 200
_short.maxlist = _short.maxtuple = _short.maxdict = 20


def table(title: str, headings: Sequence[str], rows: Iterable[Sequence[Any]], notes: Iterable[str] = ()) -> str:
    """A table with a title, and sentences below it. Numbers are aligned to the right."""
    from rtmw.text.visible import markup  # importing rtmw has to be quick, and few programs run in a notebook

    head = "".join(f"<th>{markup(name)}</th>" for name in headings)
    cells = ("".join(f"<td{_side(value)}>{markup(shown(value))}</td>" for value in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    below = "".join(f"<div>{markup(note)}</div>" for note in notes)
    thead = f"<thead><tr>{head}</tr></thead>" if headings else ""
    return f"<div><b>{markup(title)}</b><table>{thead}<tbody>{body}</tbody></table>{below}</div>"


def _side(value: Any) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, (bool, Enum))
    return f' style="text-align: {"right" if is_number else "left"}"'


def shown(value: Any) -> str:
    """A value in a cell, of bounded length."""
    match value:
        case Enum():
            return value.name
        case int() if not isinstance(value, bool):
            return f"{value:,}"
        case float():
            return f"{value:.6g}"
        case str():
            return value if len(value) <= 1000 else f"{value[:1000]}…"
        case Latency() if value.count:
            return f"p50 {duration(value.percentile(50))}, p99 {duration(value.percentile(99))}"
        case ShownByFields():
            return ", ".join(f"{name} {shown(part)}" for name, part in fields(value))
        case None | Latency() | Mapping() | tuple() if not value or isinstance(value, Latency):
            return "–"
        case _:
            return _short.repr(value)


def moment(ns: int | None) -> str | None:
    """Nanoseconds since 1970 as a time of UTC, to the microsecond."""
    from datetime import UTC, datetime

    stamp = None if ns is None else datetime.fromtimestamp(ns // 1000 / 1e6, UTC).isoformat(" ")
    return stamp and stamp.replace("+00:00", " UTC")


def fields(value: Any) -> list[tuple[str, Any]]:
    """Name and value of each member of an object with members, 100 at most; of others none."""
    names: Any = getattr(value, "__dataclass_fields__", None) or getattr(value, "__struct_fields__", None)
    names = names or getattr(value.__class__, "model_fields", ())
    members = cast("Any", value).items() if isinstance(value, dict) else ((one, getattr(value, one)) for one in names)
    return [(str(name), part) for name, part in islice(members, 100)]


class ShownByFields:
    """A dataclass that a notebook shows as a table of its fields."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return table(type(self).__name__, (), fields(self))


def sample_html(sample: Any) -> str:
    """A message: what came with it, and its value."""
    title = f"Sample of {sample.topic}"
    about = [
        ("sequence", sample.sequence),
        ("priority", sample.priority),
        ("published", moment(sample.source_time_ns)),
        ("expires", moment(sample.expires_ns)),
    ]
    try:
        type_name, value = sample.type_name, sample.value
    except ValueError as error:  # it was released, or its payload is damaged
        return table(title, (), about, [str(error)])
    members = [(f".{name}", part) for name, part in fields(value)] or [("value", value)]
    return table(title, (), [("type", type_name), *about, *members])
