"""A DataFrame that reads less when it is asked for less: `where` skips chunks, `select` leaves members undecoded.

Spark does not look into a function that gives rows, nor tells a data source written in Python what a query needs. So
`where` and `select` look at the plan that Spark has made of the query, and put a function that reads less in its place.
Spark looks at each row again: what is skipped here are chunks that have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql.classic.dataframe import DataFrame

from rtmw.spark.conditions import implied, name_of, parts_of

if TYPE_CHECKING:
    from rtmw.spark.conditions import Fields

_PASSED = ("Filter", "Project", "SubqueryAlias")
"""Nodes of a plan that have the rows of what lies below them, or some of these."""
_SOURCES = ("MapInArrow", "Union")
"""Nodes in which `rtmw.spark.read` gives its rows."""


class Source(Protocol):
    """Where rows come from."""

    @property
    def fields(self) -> Fields:
        """Of all columns that conditions may look at."""
        ...

    def narrowed(self, names: tuple[str, ...], condition: Any) -> tuple[Any, Any]:
        """Only these columns, and chunks that may have rows for which an expression of pyarrow.compute is true."""
        ...


class Rowset(DataFrame):
    """Rows of recordings, and what is derived from them by `where` and `select`. Else it is Spark's DataFrame."""

    _source: Source

    @classmethod
    def of(cls, frame: Any, source: Source) -> Self:
        made = cls(frame._jdf, frame.sparkSession)
        made._source = source
        return made

    def filter(self, condition: Any) -> DataFrame:
        narrowed: DataFrame = self._narrowed(super().filter(condition))
        return narrowed

    def where(self, condition: Any) -> DataFrame:
        return self.filter(condition)

    def select(self, *columns: Any) -> DataFrame:
        narrowed: DataFrame = self._narrowed(super().select(*columns))
        return narrowed

    def _narrowed(self, derived: Any) -> Any:
        """The same rows as a derived frame has, of less; or that frame itself, where nothing is spared or known."""
        if self.is_cached:
            return derived  # Spark has its rows, and would not find them again below another function
        try:
            execution = derived._jdf.queryExecution()
            plan, condition = execution.analyzed(), self._condition(execution.optimizedPlan())
            base, passed = _below(plan)
            if name_of(base) not in _SOURCES:
                return derived
            names = _names(base, passed)
            source, fresh = self._source.narrowed(names, condition)
            kept = [one for one in _listed(base.output()) if str(one.name()) in names]
            changed = self._with_output(fresh._jdf.queryExecution().analyzed(), kept)
            for node in reversed(passed):
                changed = node.withNewChildren(self._seq([changed]))
            jvm: Any = self._session._jvm
            frames = jvm.org.apache.spark.sql.classic.Dataset
            return Rowset.of(DataFrame(frames.ofRows(self._session._jsparkSession, changed), self._session), source)
        except (Py4JError, TypeError):
            return derived  # plans of a Spark that has others

    def _condition(self, plan: Any) -> Any:
        """The condition of a plan on each row, directly above the source of the rows."""
        while name_of(plan) in (*_PASSED, "Union"):
            below = next(parts_of(plan))  # Spark asks the same of all parts of a union
            if name_of(plan) == "Filter" and name_of(below) in _SOURCES:
                return implied(plan.condition(), self._source.fields)
            plan = below
        return None

    def _seq(self, items: list[Any]) -> Any:
        jvm: Any = self._session._jvm
        return jvm.PythonUtils.toSeq(items)

    def _with_output(self, plan: Any, attributes: list[Any]) -> Any:
        """A plan whose columns are those that the nodes above know."""
        if name_of(plan) == "Union":
            first, *others = parts_of(plan)
            return plan.withNewChildren(self._seq([self._with_output(first, attributes), *others]))
        jvm: Any = self._session._jvm
        gateway: Any = self._session._sc._gateway
        count = plan.productArity()
        elements = gateway.new_array(jvm.java.lang.Object, count)
        for place in range(count):
            elements[place] = self._seq(attributes) if place == 1 else plan.productElement(place)
        return plan.makeCopy(elements)


def _below(plan: Any) -> tuple[Any, list[Any]]:
    """Where the rows of a plan come from, and the nodes above it, the uppermost first."""
    passed: list[Any] = []
    while name_of(plan) in _PASSED:
        passed.append(plan)
        plan = plan.child()
    return plan, passed


def _names(base: Any, passed: list[Any]) -> tuple[str, ...]:
    """Columns that the nodes above need: all, unless one of them chooses."""
    every = [(str(one.name()), one.exprId().id()) for one in _listed(base.output())]
    if not any(name_of(node) == "Project" for node in passed):
        return tuple(name for name, _ in every)
    needed = {one.exprId().id() for node in passed for one in _listed(node.references().toSeq())}
    return tuple(name for name, number in every if number in needed)


def _listed(sequence: Any) -> list[Any]:
    """A Scala sequence."""
    return [sequence.apply(place) for place in range(sequence.length())]
