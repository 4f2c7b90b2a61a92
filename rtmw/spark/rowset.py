"""A DataFrame that reads less when it is asked for less: `where` skips chunks, `select` leaves members undecoded.

Spark does not look into a function that gives rows, nor tells a data source written in Python what a query needs. So
`where` and `select` look at the plan that Spark has made of the query, and put a function that reads less in its place.
Spark looks at each row again: what is skipped here are chunks that have none.

Conditions are translated from Catalyst into an expression of pyarrow.compute for the ranges of chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql.classic.dataframe import DataFrame

from rtmw.recording.frames.pruning import all_of, any_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SIGNS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "EqualTo": lambda left, right: left == right,
    "GreaterThan": lambda left, right: left > right,
    "GreaterThanOrEqual": lambda left, right: left >= right,
    "LessThan": lambda left, right: left < right,
    "LessThanOrEqual": lambda left, right: left <= right,
}
"""How the comparisons of Spark are made in PyArrow, by the names of their classes."""

Fields = dict[str, pa.Field]
"""The fields of columns, by name."""


def implied(condition: Any, fields: Fields) -> Any:
    """An expression that is true of all rows for which a condition of the JVM is true; None: none is known."""
    match name_of(condition):
        case "And":
            known = [implied(part, fields) for part in parts_of(condition)]
            return all_of(one for one in known if one is not None)
        case "Or":
            return _understood(any_of, [implied(part, fields) for part in parts_of(condition)])
        case _:
            return exact(condition, fields)


def exact(condition: Any, fields: Fields) -> Any:
    """Returns the condition as an expression of PyArrow; None: a part of it is not understood. It may be negated, so
    all of it has to be understood.

    The two agree on rows without nulls and NaN, and chunks are skipped by ranges only, which such rows do not have.
    """
    name, parts = name_of(condition), [*parts_of(condition)]
    match name:
        case "And" | "Or":
            return _understood(all_of if name == "And" else any_of, [exact(part, fields) for part in parts])
        case "Not":
            inner = exact(parts[0], fields)
            return None if inner is None else ~inner
        case "In":
            return _understood(any_of, [_compared("EqualTo", parts[0], one, fields) for one in parts[1:]])
        case "StartsWith":
            text = _scalar(parts[1], fields.get(_column(parts[0])))
            return None if text is None else pc.starts_with(pc.field(_column(parts[0])), pattern=text.as_py())
        case _ if name in _SIGNS:
            return _compared(name, parts[0], parts[1], fields)
        case _:
            return None


def _understood(join: Callable[[list[Any]], Any], found: list[Any]) -> Any:
    """Joined; None: one of them is not understood."""
    return None if any(one is None for one in found) else join(found)


def _compared(name: str, left: Any, right: Any, fields: Fields) -> Any:
    on_left = _column(left)
    column = on_left or _column(right)
    value = _scalar(right if on_left else left, fields.get(column))
    if value is None:
        return None
    return _SIGNS[name](pc.field(column), value) if on_left else _SIGNS[name](pc.scalar(value), pc.field(column))


def name_of(node: Any) -> str:
    """Returns the name of the class of a node of the JVM, in one call to it."""
    return str(node.nodeName())


def parts_of(node: Any) -> Iterator[Any]:
    children = node.children()
    return (children.apply(at) for at in range(children.length()))


def _column(node: Any) -> str:
    return str(node.name()) if name_of(node) == "AttributeReference" else ""


def _scalar(node: Any, field: pa.Field | None) -> Any:
    """A constant of the type of a column; None: it is none, or null, or a NaN."""
    if field is None or name_of(node) != "Literal" or node.value() is None:
        return None
    kind, value = str(node.dataType().typeName()), node.value()
    match kind:
        case "byte" | "short" | "integer" | "long" if pa.types.is_integer(field.type):
            return pa.scalar(int(value), field.type)
        case "float" | "double" if pa.types.is_floating(field.type) and not math.isnan(value):
            return pa.scalar(float(value), field.type)
        case "string" if pa.types.is_string(field.type):
            return pa.scalar(str(value.toString() if hasattr(value, "toString") else value), field.type)
        case "timestamp" if pa.types.is_timestamp(field.type):
            return pa.scalar(int(value), pa.int64()).cast(field.type)  # microseconds since 1970, as the column's
        case _ if kind.startswith("decimal") and pa.types.is_decimal(field.type):
            number = Decimal(str(value.toString()))
            return pa.scalar(number, field.type) if number == number.to_integral_value() else None
        case _:
            return None


_PASSED = ("Filter", "Project", "SubqueryAlias")
"""Nodes of a plan that have the rows of what lies below them, or some of these."""
_SOURCES = ("MapInArrow", "Union")
"""Nodes in which `rtmw.spark.read` gives its rows."""

_BETWEEN = "\x1f"
"""Stands between columns, as the JVM lists them."""

Node = tuple[str, Any]
"""The name of the class of a node of a plan, and the node of the JVM."""


class Source(Protocol):
    """Where rows come from."""

    @property
    def fields(self) -> Fields:
        """Fields of all columns that conditions may look at."""
        ...

    def narrowed(self, names: tuple[str, ...], condition: Any) -> tuple[Any, Any]:
        """Only these columns, and chunks that may have rows for which an expression of pyarrow.compute is true."""
        ...


class Rowset(DataFrame):
    """Rows of recordings, and what is derived from them by `where` and `select`. Else it is Spark's DataFrame.

    A frame that reads less is made when somebody needs it, so for `where(…).select(…)` only once.
    """

    _source: Source
    _asked: Any
    """The frame of the JVM that reads all."""
    _less: Any = None
    """The one that reads less; None: nobody has needed it so far."""

    @classmethod
    def of(cls, frame: Any, source: Source) -> Self:
        made = cls(frame._jdf, frame.sparkSession)
        made._less, made._source = frame._jdf, source
        return made

    @property
    def _jdf(self) -> Any:
        if self._less is None:
            self._less, self._source = narrowed(self._session, self._asked, self._source)
        return self._less

    @_jdf.setter
    def _jdf(self, asked: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._asked = asked

    def filter(self, condition: Any) -> DataFrame:
        return self._derived(lambda frame: frame.filter(condition))

    def where(self, condition: Any) -> DataFrame:
        return self.filter(condition)

    def select(self, *columns: Any) -> DataFrame:
        return self._derived(lambda frame: frame.select(*columns))

    def _derived(self, derive: Callable[[DataFrame], Any]) -> DataFrame:
        """What Spark has of a cached frame it would not find below another function: that stays as it is."""
        asked: DataFrame = derive(DataFrame(self._asked if self._less is None else self._less, self._session))
        if self.is_cached:
            return asked
        made = type(self)(asked._jdf, self._session)
        made._source = self._source
        return made


def narrowed(session: SparkSession, asked: Any, source: Source) -> tuple[Any, Source]:
    """A frame of the JVM with the same rows that reads less; or the same frame, where nothing is spared or known."""
    try:
        execution = asked.queryExecution()
        passed, below = _shape(execution.analyzed())
        columns = _columns(below)
        if not columns:
            return asked, source
        kept = _kept(passed, columns)
        narrower, fresh = source.narrowed(tuple(columns[at][0] for at in kept), _condition(execution, source))
        attributes = below.output()
        if len(kept) < len(columns):
            attributes = _seq(session, [attributes.apply(at) for at in kept])
        changed = _with_output(session, fresh._jdf.queryExecution().analyzed(), attributes)
        for _, node in reversed(passed):
            changed = node.withNewChildren(_seq(session, [changed]))
        return _frames(session._jvm).ofRows(session._jsparkSession, changed), narrower
    except (Py4JError, TypeError, ValueError):
        return asked, source  # plans of a Spark that has others


def _shape(plan: Any) -> tuple[list[Node], Any]:
    """The nodes above the source of the rows, and the node of the source."""
    passed: list[Node] = []
    while (name := name_of(plan)) in _PASSED:
        passed.append((name, plan))
        plan = plan.child()
    return passed, plan


def _columns(below: Any) -> list[tuple[str, int]]:
    """The names and numbers of the columns that a source has; none: it is not one of ours."""
    first = next(parts_of(below)) if name_of(below) == "Union" else below
    return _attributes(first.output()) if name_of(first) == "MapInArrow" else []


def _kept(passed: list[Node], columns: list[tuple[str, int]]) -> list[int]:
    """Places of the columns that the nodes above need: all, unless one of them chooses."""
    if not any(name == "Project" for name, _ in passed):
        return [*range(len(columns))]
    needed = {number for _, node in passed for _, number in _attributes(node.references())}
    return [at for at, (_, number) in enumerate(columns) if number in needed]


def _attributes(attributes: Any) -> list[tuple[str, int]]:
    """The names and numbers of columns. Raises ValueError where a name has the sign that stands between them.

    One short answer: of more than 8 KiB the JVM sends the rest when the first part is acknowledged, 40 ms later.
    """
    words = attributes.mkString(_BETWEEN)
    found = [word.rpartition("#") for word in words.split(_BETWEEN)] if words else []
    return [(name, int(number.removesuffix("L"))) for name, _, number in found]


def _condition(execution: Any, source: Source) -> Any:
    """The condition of a query on each row, directly above the source of the rows."""
    plan = execution.optimizedPlan()
    while (name := name_of(plan)) in (*_PASSED, "Union"):
        below = next(parts_of(plan))  # Spark asks the same of all parts of a union
        if name == "Filter" and name_of(below) in _SOURCES:
            return implied(plan.condition(), source.fields)
        plan = below
    return None


def _with_output(session: SparkSession, plan: Any, attributes: Any) -> Any:
    """A plan whose columns are those that the nodes above know."""
    if name_of(plan) == "Union":
        first, *others = parts_of(plan)
        return plan.withNewChildren(_seq(session, [_with_output(session, first, attributes), *others]))
    jvm: Any = session._jvm
    gateway: Any = session._sc._gateway
    count = plan.productArity()
    elements = gateway.new_array(jvm.java.lang.Object, count)
    for place in range(count):
        elements[place] = attributes if place == 1 else plan.productElement(place)
    return plan.makeCopy(elements)


def _seq(session: SparkSession, items: list[Any]) -> Any:
    jvm: Any = session._jvm
    return jvm.PythonUtils.toSeq(items)


@lru_cache(maxsize=1)
def _frames(jvm: Any) -> Any:
    """The class of frames; each part of its name is a question to the JVM."""
    return jvm.org.apache.spark.sql.classic.Dataset
