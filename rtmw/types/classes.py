"""From a class to its schema, and from a schema to classes: a dataclass, a `msgspec.Struct`, a `pydantic.BaseModel`, or
a class of `cyclonedds.idl`.

    schema, classes = describe_class(Speed)     # what `describe` gives of an IdlStruct with the same members

The schema is that of the equal IdlStruct, so that both are one type. Neither msgspec, pydantic nor cyclonedds is
imported for it: their classes are known by the attributes that they have.

cyclonedds reads an annotation that is a string only as the name of a class, and most programs postpone all annotations
of a module. `resolve_annotations` puts them back to the objects they name.

Classes for a type that is known by its description only are plain dataclasses and enums, made without cyclonedds, whose
import costs a third of a second.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from enum import Enum, Flag
from functools import partial
from importlib import import_module
from inspect import getattr_static
from types import FunctionType, MemberDescriptorType, UnionType
from typing import Annotated, Any, Final, cast, get_args, get_origin, get_type_hints

from rtmw.errors import UnsupportedType
from rtmw.types.checks import shown
from rtmw.types.schema import (
    CODES,
    Array,
    Bitmask,
    Case,
    Definition,
    Enumeration,
    Field,
    Map,
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
    Union,
    fault_of,
    nodes_of,
    strip,
)


def keywords(cls: Any, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """The arguments of the class that members of these names are; None: storing them does all that a call would.

    Raises UnsupportedType: a pydantic class takes a member under no single name.
    """
    if stores_directly(cls):
        return None
    config = pydantic_config(cls)
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    members: dict[str, Any] = {} if by_name else getattr(cls, "__pydantic_fields__", {})
    return tuple(_keyword(cls, name, getattr(members.get(name), "validation_alias", None)) for name in names)


def pydantic_config(cls: Any) -> dict[str, Any]:
    """The settings of a model or of a dataclass of pydantic; none of other classes."""
    if not hasattr(cls, "__pydantic_fields__"):
        return {}
    return getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}


def _keyword(cls: Any, name: str, alias: Any) -> str:
    if alias is not None and not isinstance(alias, str):
        raise UnsupportedType(
            f"{cls.__name__}.{name}: its alias is no single name; set validate_by_name=True in the class's model_config"
        )
    return alias or name


def stores_directly(cls: Any) -> bool:
    """Whether storing every field does all that the constructor would: no code of the user's is skipped."""
    init = cls.__init__
    return (
        is_dataclass(cls)
        and _by_dataclasses(init)
        and not hasattr(cls, "__post_init__")
        and (cls.__setattr__ is object.__setattr__ or _by_dataclasses(cls.__setattr__))  # the latter: frozen
        and cls.__new__ is object.__new__
        and not any(_intercepted(cls, member.name) for member in fields(cls))
    )


def _by_dataclasses(method: Any) -> bool:
    """Whether `dataclasses` wrote a method, and no person."""
    return isinstance(method, FunctionType) and method.__code__.co_filename == "<string>"


def _intercepted(cls: Any, name: str) -> bool:
    """Whether a property or the like stands between an assignment and the instance."""
    found: Any = getattr_static(cls, name, None)
    return hasattr(found, "__set__") and not isinstance(found, MemberDescriptorType)


@dataclass
class Variant:
    """The value of a union: which branch, and what is in it. `discriminator` None stands for the default branch."""

    discriminator: Any
    value: Any

    def get(self) -> tuple[Any, Any]:
        return self.discriminator, self.value


def make_classes(schema: Schema) -> dict[str, Any]:
    """A class for each definition, named by the last part of the definition's name."""
    return {name: _make_class(name, part) for name, part in schema.types.items()}


def _make_class(name: str, part: Definition) -> Any:
    short = name.rpartition("::")[2]
    match part:
        case Struct():
            return make_dataclass(short, [_field(member.name) for member in part.fields])
        case Union():
            return make_dataclass(short, (), bases=(Variant,))
        case Enumeration():
            return Enum(short, part.members)
        case Bitmask():
            return make_dataclass(short, [_field(bit) for bit, _ in part.bits])


def _field(name: str) -> str | tuple[str, Any, Any]:
    """An attribute that every class has under this name, such as `mro`, would be taken for the default of the field."""
    return (name, Any, field()) if hasattr(type, name) else name


def mask_of(value: Any, part: Bitmask) -> int:
    """The number that a bitmask travels as."""
    return sum(1 << position for name, position in part.bits if getattr(value, name))


def mask_from(cls: Any, number: int, part: Bitmask) -> Any:
    """A bitmask of class `cls` from its number; bits without a name are dropped."""
    return cls(**{name: bool(number >> position & 1) for name, position in part.bits})


def field_names(cls: Any) -> list[str]:
    """Names of a dataclass's fields, as its constructor takes them."""
    return [member.name for member in fields(cls) if member.init]


BOOLEANS: Final = {False: 0, True: 1}
"""Refuses what is merely truthy: a KeyError for "no" or 5, where `bool` would say True."""


def check_class(value: Any, cls: Any) -> None:
    """Lets instances of subclasses pass. Raises TypeError."""
    if not isinstance(value, cls):
        raise TypeError(f"{type(value).__name__} in place of {cls.__name__}")


def enumerator_numbers(cls: Any) -> dict[Any, int]:
    """The number of each enumerator: its value if all values of the Enum are whole numbers, else its place."""
    if all(type(member.value) is int for member in cls):
        return {member: member.value for member in cls}
    return {member: place for place, member in enumerate(cls)}


def enum_number(cls: Any, is_strict: bool) -> Callable[[Any], int]:
    """Returns what makes the number of an enumerator, or takes a plain int as cyclonedds does: any, or if
    `is_strict` only one that an enumerator has."""
    numbers = enumerator_numbers(cls)
    known = set(numbers.values())

    def number(value: Any) -> int:
        if type(value) is int:
            if is_strict and value not in known:
                raise ValueError(f"{cls.__name__} has no number {value}")
            return value
        check_class(value, cls)
        return numbers[value]

    return number


def mask_number(cls: Any, part: Any) -> Callable[[Any], int]:
    """Returns what makes the number of an instance of a bitmask class."""
    assert isinstance(part, Bitmask)

    def number(value: Any) -> int:
        check_class(value, cls)
        return mask_of(value, part)

    return number


def mask_value(cls: Any, part: Bitmask) -> Callable[[int], Any]:
    """Returns what makes an instance of a bitmask class of a number."""

    def value(number: int) -> Any:
        return mask_from(cls, number, part)

    return value


def resolve_annotations(cls: Any) -> None:
    """Resolves the annotations of a struct class and of all classes that they lead to, in place."""
    seen: set[int] = set()
    ahead = [cls]
    while ahead:
        part = ahead.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if hasattr(part, "__idl__"):
            hints: dict[str, Any] = part.__annotations__
            hints.update({name: _resolved(text, part.__module__) for name, text in hints.items() if _is_text(text)})
            ahead += hints.values()
        ahead += [*get_args(part), *([part.subtype] if hasattr(part, "subtype") else [])]


def _resolved(text: str, module: str) -> Any:
    """The type that the text names in its module; the text itself if it names none there, for cyclonedds to look up."""
    holder = type("Holder", (), {"__annotations__": {"it": text}, "__module__": module})
    try:
        return get_type_hints(holder, include_extras=True)["it"]
    except (NameError, AttributeError, SyntaxError, TypeError):
        return text


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_STRUCT_ANNOTATIONS: Final = ("extensibility", "xcdrv2", "autoid", "keylist")
_FIELD_ANNOTATIONS: Final = ("key", "id", "hash_id", "must_understand", "name")
_IDL_NAMES: Final = {"float": "float32", "double": "float64", "octet": "byte"}


def describe(cls: Any) -> tuple[Schema, dict[str, Any]]:
    """The schema of an IdlStruct class, and the class of each of its definitions. Raises UnsupportedType."""
    try:
        resolve_annotations(cls)
        cls.__idl__.populate()
        reader = _IdlReader()
        name = reader.named(cls).name
    except UnsupportedType:
        raise
    except Exception as error:  # cyclonedds raises plain exceptions for what it cannot lay out
        raise UnsupportedType(f"{cls.__name__} is no IDL type that can travel: {error}") from error
    schema = Schema(name, cls.__idl__.default_version, reader.types)
    fault = fault_of(schema)
    if fault:
        raise UnsupportedType(f"{cls.__name__} cannot travel: {fault}")
    return schema, reader.classes


class _IdlReader:
    """Walks type hints as cyclonedds normalises them; each class once."""

    def __init__(self) -> None:
        self.types: dict[str, Definition] = {}
        self.classes: dict[str, Any] = {}
        self._kinds: Any = import_module("cyclonedds.idl.types")
        self._idl: Any = import_module("cyclonedds.idl")
        self._hints: Any = import_module("cyclonedds.idl._type_normalize")
        self._primitives: dict[Any, str] = {bool: "boolean", int: "int64", float: "double"}
        for name in CODES:
            if name != "boolean":
                self._primitives[getattr(self._kinds, _IDL_NAMES.get(name, name))] = name

    def node(self, hint: Any) -> Node:
        kinds = self._kinds
        if hint in self._primitives:
            return Primitive(self._primitives[hint])
        if isinstance(hint, self._hints.WrapOpt):
            return Maybe(self.node(hint.inner))
        if isinstance(hint, kinds.typedef):
            return Typedef(hint.name.replace(".", "::"), self.node(hint.subtype))
        if isinstance(hint, kinds.sequence):
            return Sequence(self.node(hint.subtype), hint.max_length)
        if isinstance(hint, kinds.array):
            return Array(self.node(hint.subtype), hint.length)
        if isinstance(hint, kinds.bounded_str):
            return Text(hint.max_length)
        return self._plain(hint)

    def _plain(self, hint: Any) -> Node:
        if hint is str:
            return Text()
        if hint is bytes:
            return Octets()
        if get_origin(hint) is list:
            return Sequence(self.node(get_args(hint)[0]), plain=False)
        if get_origin(hint) is dict:
            key, value = get_args(hint)
            return Map(self.node(key), self.node(value))
        if isinstance(hint, type):
            return self.named(hint)
        raise UnsupportedType(f"{hint!r} cannot be a member of a message")

    def named(self, cls: Any) -> Named:
        """Registers the class under its DDS name. Two classes of one name cannot be told apart by a reader."""
        name: str = getattr(cls, "__idl_typename__", cls.__name__).replace(".", "::")
        known = self.classes.get(name)
        if known is cls:
            return Named(name)
        if known is not None:
            raise UnsupportedType(f"two classes are called {name}: {known!r} and {cls!r}; give one another typename")
        self.classes[name] = cls
        self.types[name] = Struct(())  # keeps the order of first mention, which makes the description canonical
        self.types[name] = self._definition(cls)
        return Named(name)

    def _definition(self, cls: Any) -> Definition:
        if issubclass(cls, self._idl.IdlStruct):
            return self._struct(cls)
        if issubclass(cls, self._idl.IdlUnion):
            return self._union(cls)
        if issubclass(cls, self._idl.IdlBitmask):
            bits = tuple((name, bit.bit_length() - 1) for bit, name in cls.__idl_bits__.items())
            return Bitmask(bits, cls.__idl_annotations__["bit_bound"])
        if issubclass(cls, Enum) and hasattr(cls, "__idl_annotations__"):
            members = tuple((name, member.value) for name, member in cls.__members__.items())
            return Enumeration(members, vars(cls)["__idl_annotations__"].get("bit_bound"))
        raise UnsupportedType(f"{cls!r} cannot be a member of a message; use the types of cyclonedds.idl")

    def _struct(self, cls: Any) -> Struct:
        hints: dict[str, Any] = self._hints.get_extended_type_hints(cls)
        annotations: dict[str, dict[str, Any]] = self._hints.get_idl_field_annotations(cls)
        fields = tuple(
            Field(name, self.node(hint), _kept(annotations.get(name, {}), _FIELD_ANNOTATIONS))
            for name, hint in hints.items()
        )
        return Struct(fields, {"extensibility": "final"} | _kept(cls.__idl_annotations__, _STRUCT_ANNOTATIONS))

    def _union(self, cls: Any) -> Union:
        hints: dict[str, Any] = self._hints.get_extended_type_hints(cls)
        discriminator = self.node(cls.__idl_discriminator__)
        label = partial(_label, is_boolean=strip(discriminator) == Primitive("boolean"))
        cases = tuple(
            Case(name, tuple(map(label, getattr(hint, "labels", ()))), self.node(hint.subtype))
            for name, hint in hints.items()
        )
        implicit = label(cls.__idl_default_discriminator__)
        annotations = {"extensibility": "final"} | _kept(cls.__idl_annotations__, _STRUCT_ANNOTATIONS)
        return Union(discriminator, cases, implicit, annotations)


def _kept(annotations: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: annotations[name] for name in names if name in annotations}


def _label(label: Any, is_boolean: bool) -> Any:
    """`typing` takes case[1, X] and case[True, X] for one: whichever is first in a program stands for both."""
    value = label.value if isinstance(label, Enum) else label
    return (bool if is_boolean else int)(value) if isinstance(value, int) else value


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
