"""From a plain class to its schema: a dataclass, a `msgspec.Struct` or a `pydantic.BaseModel`.

    schema, classes = describe_class(Speed)     # what `describe` gives of an IdlStruct with the same members

The schema is that of the equal IdlStruct, so that both are one type. Neither msgspec, pydantic nor cyclonedds is
imported for it: their classes are known by the attributes that they have.
"""

from __future__ import annotations

import typing
from dataclasses import fields
from enum import Enum, Flag
from types import UnionType
from typing import Annotated, Any, Final, cast, get_args, get_origin, get_type_hints

from rtmw.errors import UnsupportedType
from rtmw.types.checks import shown
from rtmw.types.construct import pydantic_config
from rtmw.types.convert import enumerator_numbers
from rtmw.types.schema import (
    Array,
    Definition,
    Enumeration,
    Field,
    Maybe,
    Named,
    Node,
    Octets,
    Primitive,
    Schema,
    Sequence,
    Struct,
    Text,
    Typedef,
    fault_of,
    nodes_of,
)

_PLAIN: Final[dict[Any, Node]] = {
    bool: Primitive("boolean"),
    int: Primitive("int64"),
    float: Primitive("double"),
    str: Text(),
    bytes: Octets(),
}
_IDL_WORDS: Final = {"byte": "octet", "float32": "float", "float64": "double"}
_WORDS: Final[dict[tuple[Any, Any], Node]] = {
    (base, word): Primitive(_IDL_WORDS.get(word, word))
    for base, words in (
        (int, ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "byte", "wchar")),
        (float, ("float32", "float64")),
        (str, ("char",)),
    )
    for word in words
}
"""Types of members by what `Annotated[int, "int8"]` has: `rtmw.int8` is that, and so is cyclonedds' `types.int8`."""

_LIST: Final = "list[T]"
_ARRAY: Final = "an array of numbers of a size: NDArray[np.float32]"
_SINCE_1970: Final = "float for seconds since 1970, as `timestamp()` gives, or int for nanoseconds"
_JSON: Final = "a class with a member for each key, or a list of a class with key and value"
_INSTEAD: Final = {
    "typing.Any": "a class with members; a topic of type `dict` carries any JSON value",
    "builtins.object": "a class with members; a topic of type `dict` carries any JSON value",
    "typing.Literal": "an Enum",
    "builtins.list": "list[T], which says of what, such as list[float]",
    "builtins.set": _LIST,
    "builtins.frozenset": _LIST,
    "builtins.tuple": "list[T], or a class with a member for each element",
    "collections.abc.Sequence": _LIST,
    "collections.abc.Iterable": _LIST,
    "collections.abc.Mapping": _JSON,
    "builtins.dict": _JSON,
    "numpy.ndarray": _ARRAY,
    "numpy.bool": "bool",
    "numpy.bool_": "bool",
    "numpy.str_": "str",
    "numpy.bytes_": "bytes",
    "builtins.bytearray": "bytes",
    "builtins.memoryview": "bytes",
    "builtins.complex": "two members of float",
    "datetime.datetime": _SINCE_1970,
    "datetime.date": "str for the ISO form, as `isoformat()` gives",
    "datetime.time": "str for the ISO form, as `isoformat()` gives",
    "datetime.timedelta": "float for seconds, as `total_seconds()` gives",
    "decimal.Decimal": "str, or float",
    "uuid.UUID": "str, or bytes",
    "pathlib.Path": "str",
}
"""What to write in place of a type that IDL does not have."""
_MEMBERS: Final = "bool, int, float, rtmw.int8 to rtmw.float64, str, bytes, list[T], T | None, an Enum, or such a class"


def has_members(given: Any) -> bool:
    """Whether it is a class whose objects have named members: of `dataclasses`, msgspec or pydantic."""
    marks = "__dataclass_fields__", "__struct_fields__", "__pydantic_fields__"
    return isinstance(given, type) and any(hasattr(given, mark) for mark in marks)


def describe_class(cls: Any) -> tuple[Schema, dict[str, Any]]:
    """The schema of a class that has members, and the class of each of its definitions. Raises UnsupportedType."""
    if cls.__module__.partition(".")[0] in ("msgspec", "pydantic"):
        raise UnsupportedType(f"{cls!r} has no members of its own; give a class that is derived from it")
    reader = _Reader()
    name = reader.named(cls, cls.__name__).name
    schema = Schema(name, reader.xcdr(), reader.types)
    fault = fault_of(schema)
    if fault:
        raise UnsupportedType(f"{cls.__name__} cannot travel: {fault}")
    return schema, reader.classes


class _Reader:
    """Walks the annotations of classes; each class once. `path` is the member that is read, for errors."""

    def __init__(self) -> None:
        self.types: dict[str, Definition] = {}
        self.classes: dict[str, Any] = {}
        self._open: set[Any] = set()
        """Classes whose members are being read."""
        self._needs_xcdr2 = False
        """A nested IdlStruct does."""

    def xcdr(self) -> int:
        """cyclonedds writes XCDR1 unless there is a member that only XCDR2 has."""
        has_optional = any(isinstance(node, Maybe) for part in self.types.values() for node in nodes_of(part))
        return 2 if has_optional or self._needs_xcdr2 else 1

    def named(self, cls: Any, path: str) -> Named:
        """Registers a class or an Enum under its DDS name. Two of one name cannot be told apart by a reader."""
        own = cast("dict[str, Any]", vars(cls))
        given = own.get("__idl_typename__", cls.__name__)
        if not isinstance(given, str):
            raise UnsupportedType(
                f"{cls.__name__}.__idl_typename__ is {shown(given)}; use a str, such as 'plant.{cls.__name__}'"
            )
        name = given.replace(".", "::")
        known = self.classes.get(name)
        if known is not None and known is not cls:
            raise UnsupportedType(
                f"{path}: two classes are called {name}: {known!r} and {cls!r}; give one another __idl_typename__"
            )
        if cls in self._open:
            raise UnsupportedType(
                f"{path}: {cls.__name__} would contain itself; send a list of all, each with the index of its parent, "
                "or use an IdlStruct"
            )
        if known is None:
            self._register(name, cls, path)
        return Named(name)

    def _register(self, name: str, cls: Any, path: str) -> None:
        if hasattr(cls, "__idl__"):
            self._take_over(cls)
            return
        self.classes[name] = cls
        self._open.add(cls)
        self.types[name] = _enumeration(cls, path) if issubclass(cls, Enum) else self._struct(cls)
        self._open.remove(cls)

    def _take_over(self, cls: Any) -> None:
        """The definitions of an IdlStruct or IdlUnion, as cyclonedds reads them."""
        from rtmw.types.describe import describe

        schema, classes = describe(cls)
        for name, one in classes.items():
            if self.classes.setdefault(name, one) is not one:
                raise UnsupportedType(f"two classes are called {name}: {self.classes[name]!r} and {one!r}")
        self.types |= schema.types
        self._needs_xcdr2 |= schema.xcdr == 2

    def _struct(self, cls: Any) -> Struct:
        members = _hints(cls).items()
        made = tuple(Field(name, self._node(hint, f"{cls.__name__}.{name}")) for name, hint in members)
        return Struct(made, {"extensibility": "final"})

    def _node(self, hint: Any, path: str) -> Node:
        hint = _behind_names(hint)
        origin, inner = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._annotated(inner[0], inner[1:], path)
        if origin is typing.Union or origin is UnionType:
            return self._optional(hint, inner, path)
        if origin is list and inner:
            return Sequence(self._element(inner[0], path))
        if getattr(origin, "__module__", "") == "numpy" and origin.__name__ == "ndarray":
            return _array(hint, inner, path)
        if isinstance(hint, type):
            if hint in _PLAIN:
                return _PLAIN[hint]
            if has_members(hint) or hasattr(hint, "__idl__") or (issubclass(hint, Enum) and not issubclass(hint, Flag)):
                return self.named(hint, path)
        raise _refusal(hint, path)

    def _annotated(self, base: Any, notes: tuple[Any, ...], path: str) -> Node:
        """Notes that say nothing of IDL, such as those of validators, are passed over."""
        for note in notes:
            if isinstance(note, str) and (base, note) in _WORDS:
                return _WORDS[base, note]
            if type(note).__module__ == "cyclonedds.idl.types":
                return self._idl_note(note, path)
        return self._node(base, path)

    def _idl_note(self, note: Any, path: str) -> Node:
        """What `sequence[T]`, `array[T, n]`, `bounded_str[n]` and `typedef[name, T]` of cyclonedds leave behind."""
        match type(note).__name__:
            case "sequence":
                return Sequence(self._element(note.subtype, path), note.max_length)
            case "array":
                return Array(self._element(note.subtype, path), note.length)
            case "bounded_str":
                return Text(note.max_length)
            case "typedef":
                return Typedef(note.name.replace(".", "::"), self._node(note.subtype, path))
            case _:
                raise _refusal(note, path)

    def _element(self, hint: Any, path: str) -> Node:
        node = self._node(hint, f"{path}[]")
        if isinstance(node, Maybe):
            raise UnsupportedType(f"{path}: an element of a list is never None; leave it out, or use a list of a class")
        return node

    def _optional(self, hint: Any, inner: tuple[Any, ...], path: str) -> Node:
        held = [one for one in inner if one is not type(None)]
        if len(held) == len(inner) or len(held) != 1:
            raise UnsupportedType(
                f"{path}: a member has one type, and not one of {hint}; use a class with a member `T | None` for each"
            )
        node = self._node(held[0], path)
        return node if isinstance(node, Maybe) else Maybe(node)


def _array(hint: Any, inner: tuple[Any, ...], path: str) -> Sequence:
    """`NDArray[np.float32]`: a sequence of these numbers, that is decoded to an array."""
    word = getattr(next(iter(get_args(inner[-1])), None), "__name__", "")
    element = _WORDS.get((int, word), _WORDS.get((float, word)))
    if element is None:
        raise UnsupportedType(f"{path}: {hint} cannot be a member of a message; use {_ARRAY}")
    return Sequence(element, as_array=True)


def _enumeration(cls: Any, path: str) -> Enumeration:
    """An Enum travels as numbers: its values where all are whole, else the places of the enumerators."""
    numbers = enumerator_numbers(cls)
    for member, number in numbers.items():
        if not 0 <= number < 1 << 32:
            raise UnsupportedType(f"{path}: {member} has the number {number}; use 0 to {(1 << 32) - 1}")
    members = tuple((name, numbers[member]) for name, member in cls.__members__.items())
    own = cast("dict[str, Any]", vars(cls))
    return Enumeration(members, own.get("__idl_annotations__", {}).get("bit_bound"))


def _hints(cls: Any) -> dict[str, Any]:
    """The annotation of each member, in order."""
    if pydantic_config(cls).get("extra") == "allow":
        raise UnsupportedType(
            f"{cls.__name__} has extra='allow', and members that the class does not name cannot travel; name them all "
            "and set extra='ignore' or 'forbid', or send any JSON value on a topic of type `dict`"
        )
    if hasattr(cls, "__pydantic_fields__") and not hasattr(cls, "__dataclass_fields__"):
        return _hints_of_model(cls)
    names = cls.__struct_fields__ if hasattr(cls, "__struct_fields__") else _field_names(cls)
    try:
        hints = get_type_hints(cls, include_extras=True)
    except Exception as error:  # whatever evaluating an annotation raises
        raise UnsupportedType(
            f"an annotation of {cls.__name__} cannot be resolved: {error}; define what it names at the top of module "
            f"{cls.__module__}, outside of functions and of `if TYPE_CHECKING`"
        ) from error
    return {name: hints[name] for name in names}


def _field_names(cls: Any) -> list[str]:
    for member in fields(cls):
        if not member.init:
            raise UnsupportedType(
                f"{cls.__name__}.{member.name}: a member is an argument of the class, and init=False says that this is "
                "none; use a property"
            )
    return [member.name for member in fields(cls)]


def _hints_of_model(cls: Any) -> dict[str, Any]:
    """pydantic resolves annotations, and keeps the notes of `Annotated` beside them."""
    annotated: Any = Annotated
    if not cls.__pydantic_complete__:
        try:
            cls.model_rebuild()
        except Exception as error:  # pydantic's own
            raise UnsupportedType(f"{cls.__name__} is not complete: {error}") from error
    return {
        name: annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        for name, field in cls.__pydantic_fields__.items()
    }


def _behind_names(hint: Any) -> Any:
    """The type behind `NewType` and `type X = ...`."""
    while (behind := getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)) is not None:
        hint = behind
    return hint


def _refusal(hint: Any, path: str) -> UnsupportedType:
    origin = get_origin(hint) or hint
    name = getattr(origin, "__qualname__", None) or getattr(origin, "_name", None) or type(origin).__qualname__
    module = getattr(origin, "__module__", "")
    instead = _INSTEAD.get(f"{module}.{name}", _MEMBERS)
    if module == "numpy" and ((int, name) in _WORDS or (float, name) in _WORDS):
        instead = f"rtmw.{name}"
    if isinstance(hint, type) and issubclass(hint, Flag):
        instead = "rtmw.uint32, and the flags' values"
    return UnsupportedType(f"{path}: {_shown(hint)} cannot be a member of a message; use {instead}")


def _shown(hint: Any) -> str:
    return str(hint.__qualname__) if isinstance(hint, type) else str(hint)
