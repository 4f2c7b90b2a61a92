"""JSON that every reader takes, and frozen dataclasses as JSON objects and back.

Python's own writes NaN and Infinity, which the standard does not know.

A dataclass is an object with a member for each field, by the name of the field without a `_` at its end. It has texts,
numbers, flags, None, tuples, mappings by text, and other such dataclasses. A field with the metadata REST has all other
members of the object that fit its type. A method `json_names(self)` says which members this value writes, and in which
order; without it a value writes them all.

`read` passes over members that it does not know, which a newer writer may have, and gives fields their defaults for
those that are missing, as from an older one. Numbers that it gives are finite, and smaller than 2^64.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

from rtmw.errors import RtmwError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["NOT_FINITE", "REST", "JsonError", "Rendered", "as_json", "as_object", "packed", "read", "rendered"]

NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
"""Numbers that JSON has as texts."""
REST: Final = MappingProxyType({"rest": True})
"""Metadata of the field for all other members."""

T = TypeVar("T")
D = TypeVar("D", bound="DataclassInstance")


def as_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """One document; `default` makes plain what JSON has no word for. Numbers that are not finite become texts."""
    try:
        return json.dumps(value, default=default, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=default)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in cast("list[Any]", value)]
    return value


# ---- dataclasses as JSON ----


class Rendered(tuple[T, ...]):
    """A tuple whose JSON is known already, so that `packed` does not make it again."""

    text: str


def rendered(rows: Iterable[T], texts: Iterable[str]) -> Rendered[T]:
    """`texts`: the JSON of each row."""
    made = Rendered[T](rows)
    made.text = f"[{', '.join(texts)}]"
    return made


def as_object(value: Any) -> Any:
    """The value with dicts and lists in place of dataclasses, mappings and tuples."""
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return [as_object(one) for one in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {key: as_object(one) for key, one in cast("Mapping[str, Any]", value).items()}
    return {name: as_object(one) for name, one in _members(value)} if hasattr(kind, _FIELDS) else value


_PLAIN: Final = frozenset({str, int, float, bool, NoneType})
_FIELDS: Final = "__dataclass_fields__"


def packed(value: Any) -> str:
    """The JSON of a value of `as_object`, with the texts of what is Rendered."""
    if isinstance(value, Rendered):
        return value.text
    if hasattr(value.__class__, _FIELDS):
        return f"{{{', '.join([f'{json.dumps(name)}: {packed(one)}' for name, one in _members(value)])}}}"
    return as_json(as_object(value))


def _members(value: Any) -> list[tuple[str, Any]]:
    form = _form(value.__class__)
    found = [(name, getattr(value, form.attributes[name])) for name in form.names(value)]
    return found if form.rest is None else [*found, *getattr(value, form.rest).items()]


class JsonError(RtmwError):
    """A JSON document is not what it has to be; the message says where, what stands there, and what has to."""


class _Misfit(Exception):
    """A value that does not fit, and the path to it from where the error is caught."""

    def __init__(self, words: str, path: str = "") -> None:
        self.words, self.path = words, path

    def within(self, step: str) -> _Misfit:
        return _Misfit(self.words, f"{step}.{self.path}" if self.path else step)


def read(cls: type[D], value: Any, what: str) -> D:
    """Makes a dataclass of an object that JSON was read from. `what`: the document, for the error. Raises JsonError."""
    try:
        return cast("D", _form(cls).read(value))
    except _Misfit as misfit:
        place = f"{misfit.path} in {what}" if misfit.path else what
        raise JsonError(f"{place} {misfit.words}") from None


_Reader = Callable[[Any], Any]


class _Form:
    """How one dataclass is written and read."""

    def __init__(self, cls: type[Any]) -> None:
        self._cls, hints = cls, get_type_hints(cls)
        self.attributes: dict[str, str] = {}
        """The names of fields, by those of members."""
        self.rest: str | None = None
        """The field that has all other members."""
        self._readers: list[tuple[str, str, _Reader]] = []
        self._one_of_rest: _Reader = _anything
        for field in cls.__dataclass_fields__.values():
            if field.metadata.get("rest"):
                self.rest, self._one_of_rest = field.name, _reader(get_args(hints[field.name])[1])
                continue
            name = field.name.removesuffix("_")
            self.attributes[name] = field.name
            self._readers.append((name, field.name, _reader(hints[field.name])))
        self.names: Callable[[Any], Collection[str]] = getattr(cls, "json_names", lambda _: self.attributes)

    def read(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Misfit(f"is {_short(value)}; it has to be an object")
        told, found = cast("dict[str, Any]", value), dict[str, Any]()
        for name, attribute, reader in self._readers:
            if name in told:
                try:
                    found[attribute] = reader(told[name])
                except _Misfit as misfit:
                    raise misfit.within(name) from None
        if self.rest is not None:
            found[self.rest] = dict(self._others(told))
        try:
            return self._cls(**found)
        except TypeError:
            lacking = [
                name for name, attribute, _ in self._readers if attribute not in found and self._needs(attribute)
            ]
            raise _Misfit(f"lacks {', '.join(lacking)}") from None

    def _needs(self, attribute: str) -> bool:
        from dataclasses import MISSING

        field = self._cls.__dataclass_fields__[attribute]
        return field.default is MISSING and field.default_factory is MISSING

    def _others(self, told: dict[str, Any]) -> Iterable[tuple[str, Any]]:
        for name, value in told.items():
            if name not in self.attributes:
                try:
                    yield name, self._one_of_rest(value)
                except _Misfit:
                    continue  # of a newer writer


_form: Final = cache(_Form)


def _reader(hint: Any) -> _Reader:
    """Makes what takes a value of JSON as this type, or raises _Misfit."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return _anything
    if origin is UnionType:
        (inner,) = (part for part in parts if part is not NoneType)
        present = _reader(inner)
        return lambda value: None if value is None else present(value)
    if origin is tuple:
        return _items(_reader(parts[0]))
    if origin is not None:
        return _entries(_reader(parts[1]))
    if hasattr(hint, _FIELDS):
        return lambda value: _form(hint).read(value)
    return _one(hint, _WORDS[hint])


def _anything(value: Any) -> Any:
    return value


_WORDS: Final = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_BEYOND: Final = 1 << 64
"""Numbers are smaller, with either sign; so each that was read can be reckoned with. NaN is not smaller."""


def _one(kind: type[Any], words: str) -> _Reader:
    if kind in (int, float):
        return _number((int, float) if kind is float else (int,), words)

    def reader(value: Any) -> Any:
        if value.__class__ is kind:
            return value
        raise _Misfit(f"is {_short(value)}; it has to be {words}")

    return reader


def _number(kinds: tuple[type[Any], ...], words: str) -> _Reader:
    def reader(value: Any) -> Any:
        if value.__class__ not in kinds:
            raise _Misfit(f"is {_short(value)}; it has to be {words}")
        if not -_BEYOND < value < _BEYOND:
            raise _Misfit(f"is {_short(value)}; it has to be {words} of less than 2^64")
        return value

    return reader


def _items(one: _Reader) -> _Reader:
    def reader(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _Misfit(f"is {_short(value)}; it has to be a list")
        found = list[Any]()
        try:
            for item in cast("Iterable[Any]", value):
                found.append(one(item))
        except _Misfit as misfit:
            raise misfit.within(str(len(found))) from None
        return tuple(found)

    return reader


def _entries(one: _Reader) -> _Reader:
    def reader(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _Misfit(f"is {_short(value)}; it has to be an object")
        found = dict[str, Any]()
        for name, item in cast("dict[str, Any]", value).items():
            try:
                found[name] = one(item)
            except _Misfit as misfit:
                raise misfit.within(name) from None
        return found

    return reader


_LONGEST: Final = 60


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
