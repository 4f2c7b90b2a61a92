"""Message definitions of ROS 2 (`ros2msg`): those of other recorders as a schema, and ours as ROS 2 writes them. Bags
of ROS 2 write the QoS that a publisher offers in YAML, in the metadata of a channel.

A schema's text is the definition of one message, followed by those it is made of, each after a line of `=` and a line
`MSG: package/Name`. On the wire they are XCDR1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

from rtmw.errors import UnsupportedType
from rtmw.recording.schemas.idl_reader import python_name
from rtmw.recording.schemas.idl_syntax import TEXT_LIMIT
from rtmw.types.checks import MEMBERS, TYPES, shown
from rtmw.types.schema import (
    Array,
    Bitmask,
    Definition,
    Enumeration,
    Field,
    Named,
    Node,
    Octets,
    Primitive,
    Schema,
    Sequence,
    Struct,
    Text,
    code_of,
    strip,
)

PRIMITIVES: Final = {
    "bool": "boolean",
    "byte": "octet",
    "char": "uint8",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""A char of ROS 2 is a number."""
_SPELLING: Final = {ours: theirs for theirs, ours in PRIMITIVES.items()} | {
    "char": "uint8",
    "uint8": "uint8",
    "wchar": "int16",
}

BUILTIN: Final = {
    "time": "builtin_interfaces/Time",
    "duration": "builtin_interfaces/Duration",
}
_PARTS: Final = {
    "builtin_interfaces::msg::Time": "int32 sec\nuint32 nanosec",
    "builtin_interfaces::msg::Duration": "int32 sec\nuint32 nanosec",
}
"""The definitions that recorders may leave out, because every reader knows them."""

RULER: Final = "=" * 80
_SHOWN: Final = 127
"""Characters of a name in an error."""
PLACEHOLDER: Final = "structure_needs_at_least_one_member"
"""The member that ROS 2 puts into a message without members."""

_FIELD: Final = re.compile(
    r"(?P<type>[A-Za-z][\w/]*)(?:<=(?P<bound>\d{1,10}))?(?P<array>\[(?P<upto><=)?(?P<length>\d{0,10})\])?\s+"
    r"(?P<name>[A-Za-z]\w*)(?P<rest>.*)",
    re.ASCII,
)
_SECTION: Final = re.compile(r"^={3,}[ \t]*\r?\nMSG:[ \t]*(\S+)[ \t]*$", re.MULTILINE)


def from_ros2msg(text: str, name: str) -> Schema:
    """The schema of the message `name`, such as `sensor_msgs/msg/Imu`, from its text. Raises UnsupportedType."""
    if len(text) > TEXT_LIMIT:
        raise UnsupportedType(f"a definition of {len(text)} characters; at most {TEXT_LIMIT} are read")
    top = full_name(name)
    pieces = _SECTION.split(text)
    texts = {**_PARTS, **{full_name(key): body for key, body in zip(pieces[1::2], pieces[2::2], strict=True)}}
    texts[top] = pieces[0]
    types: dict[str, Definition] = {}
    ahead, members = [top], 0
    while ahead:
        part = ahead.pop()
        if part in types:
            continue
        if part not in texts:
            raise UnsupportedType(f"the definition of {name[:_SHOWN]} needs {part[:_SHOWN]}, which does not follow it")
        fields = tuple(_fields(part, texts[part]))
        types[part] = Struct(fields, {"extensibility": "final"})
        members += len(fields)
        if len(types) > TYPES or members > MEMBERS:
            raise UnsupportedType(f"{name[:_SHOWN]} has more than {TYPES} definitions, or more than {MEMBERS} members")
        ahead += reversed([target for field in fields for target in _targets(field.node)])
    return Schema(top, 1, types)


def full_name(name: str) -> str:
    """`sensor_msgs/Imu` and `sensor_msgs/msg/Imu` are `sensor_msgs::msg::Imu`."""
    parts = name.split("/")
    return "::".join([parts[0], "msg", parts[1]] if len(parts) == 2 else parts)


def _targets(node: Node) -> Iterator[str]:
    while isinstance(node, Sequence | Array):
        node = node.element
    if isinstance(node, Named):
        yield node.name


def _fields(owner: str, text: str) -> Iterator[Field]:
    found = False
    for line in text.splitlines():
        plain = line.strip()
        match = _FIELD.fullmatch(plain)
        if not plain or plain.startswith("#"):
            continue
        if match is None:
            raise UnsupportedType(f"{owner[:_SHOWN]} has a line that is no field: {shown(plain)}")
        if match["rest"].lstrip().startswith("="):  # a constant
            continue
        found = True
        name = python_name(match["name"])
        yield Field(name, _shaped(owner, match), {} if name == match["name"] else {"name": match["name"]})
    if not found:
        yield Field(PLACEHOLDER, Primitive("uint8"))


def _shaped(owner: str, match: re.Match[str]) -> Node:
    element = _element(owner, match["type"], match["bound"])
    if match["array"] is None:
        return element
    length = int(match["length"]) if match["length"] else None
    if match["upto"] or length is None:
        return Sequence(element, length)
    return Array(element, length)


def _element(owner: str, word: str, bound: str | None) -> Node:
    word = BUILTIN.get(word, word)
    if word == "string":
        return Text(int(bound) if bound else None)
    if word == "wstring":
        raise UnsupportedType(f"{owner[:_SHOWN]} has a wstring, which cannot be decoded")
    if word in PRIMITIVES:
        return Primitive(PRIMITIVES[word])
    if "/" in word:
        return Named(full_name(word))
    return Named("builtin_interfaces::msg::" + word if word in ("Time", "Duration") else _beside(owner, word))


def _beside(owner: str, word: str) -> str:
    """The message of this name in the package of the owner; a Header is that of std_msgs wherever it stands."""
    package = "std_msgs::msg" if word == "Header" else owner.rpartition("::")[0]
    return f"{package}::{word}"


def to_ros2msg(schema: Schema) -> tuple[str, str]:
    """Name and text of the message as ROS 2 writes it. Raises UnsupportedType for what no such message can hold."""
    if schema.xcdr != 1:
        raise UnsupportedType(f"{schema.name} travels as XCDR2, and a message of ROS 2 as XCDR1")
    sections = [_text_of(schema, schema.top)]
    for name in _needed(schema):
        part = schema.types[name]
        if name != schema.name and isinstance(part, Struct):
            sections.append(f"{RULER}\nMSG: {ros2_name(name).replace('/msg/', '/')}\n{_text_of(schema, part)}")
    return ros2_name(schema.name), "".join(sections)


def ros2_name(name: str) -> str:
    """`river::Reading` and `river::msg::Reading` are `river/msg/Reading`."""
    parts = [part for part in name.split("::") if part != "msg"]
    package = "_".join(parts[:-1]) or "rtmw"
    return f"{package}/msg/{parts[-1]}"


def _needed(schema: Schema) -> list[str]:
    """The names of all that the top struct is made of, in order of first mention."""
    found: list[str] = []
    ahead = [schema.name]
    while ahead:
        name = ahead.pop(0)
        if name in found:
            continue
        found.append(name)
        part = schema.types[name]
        if isinstance(part, Struct):
            ahead += [target for member in part.fields for target in _behind_names(member.node)]
    return found


def _behind_names(node: Node) -> Iterator[str]:
    node = strip(node)
    while isinstance(node, Sequence | Array):
        node = strip(node.element)
    if isinstance(node, Named):
        yield node.name


def _text_of(schema: Schema, part: Struct) -> str:
    lines = [_line(schema, member) for member in part.fields]
    return "".join(f"{line}\n" for line in lines)


def _line(schema: Schema, member: Field) -> str:
    node, shape = strip(member.node), ""
    if isinstance(node, Octets):
        node = Sequence(Primitive("octet"))
    if isinstance(node, Sequence):
        shape = "[]" if node.bound is None else f"[<={node.bound}]"
        node = strip(node.element)
    elif isinstance(node, Array):
        shape = f"[{node.length}]"
        node = strip(node.element)
    word, remark = _word(schema, member.name, node)
    return f"{word}{shape} {member.annotations.get('name', member.name)}{remark}"


def _word(schema: Schema, member: str, node: Node) -> tuple[str, str]:
    """A field's type, and a comment where the type says less than it did."""
    match node:
        case Primitive():
            return _SPELLING[node.name], ""
        case Text():
            return ("string" if node.bound is None else f"string<={node.bound}"), ""
        case Named():
            return _named_word(schema, node)
        case _:
            raise UnsupportedType(f"{schema.name}: no message of ROS 2 holds what {member} is: {node}")


def _named_word(schema: Schema, node: Named) -> tuple[str, str]:
    part = schema.types[node.name]
    if isinstance(part, Struct):
        return ros2_name(node.name).replace("/msg/", "/"), ""
    code = code_of(node, schema)
    if code is None:
        raise UnsupportedType(f"{schema.name}: no message of ROS 2 holds a union, which {node.name} is")
    meaning = part.members if isinstance(part, Enumeration) else part.bits if isinstance(part, Bitmask) else ()
    return f"uint{8 * code[1]}", f"  # {node.name}: " + ", ".join(f"{name} {number}" for name, number in meaning)


QOS_KEY: Final = "offered_qos_profiles"
_FOREVER: Final = "{sec: 9223372036, nsec: 854775807}"
_NS: Final = 1_000_000_000
_LINE: Final = re.compile(r"^[ -]*(history|depth|reliability|durability): *(\w+)", re.MULTILINE)
_COUNT: Final = re.compile(r"\d{1,18}", re.ASCII)
_TRANSIENT_LOCAL: Final = {"1", "transient_local"}


def qos_profiles(qos: Mapping[str, str]) -> str:
    """The profile of what a channel's metadata says of its publisher: the same that a node offers to DDS programs."""
    reliability = "best_effort" if qos.get("rtmw.reliability") == "TIMELY" else "reliable"
    history = _count(qos, "rtmw.history")
    depth = history or _count(qos, "rtmw.depth") or 10
    lifetime = _count(qos, "rtmw.lifetime_ns")
    lifespan = f"{{sec: {lifetime // _NS}, nsec: {lifetime % _NS}}}" if lifetime else _FOREVER
    lines = (
        "history: keep_last",
        f"depth: {depth}",
        f"reliability: {reliability}",
        f"durability: {'transient_local' if history else 'volatile'}",
        f"deadline: {_FOREVER}",
        f"lifespan: {lifespan}",
        "liveliness: automatic",
        f"liveliness_lease_duration: {_FOREVER}",
        "avoid_ros_namespace_conventions: false",
    )
    return "- " + "\n  ".join(lines) + "\n"


def _count(qos: Mapping[str, str], key: str) -> int:
    """A whole number of 64 bits; 0 for anything else, since whoever made the recording wrote what he liked."""
    text = qos.get(key, "0")
    return int(text) if _COUNT.fullmatch(text) else 0


def offered(profiles: str) -> list[dict[str, str]]:
    """Returns for each publisher its history, depth, reliability and durability, as words or numbers in small
    letters."""
    parts = re.split(r"^- ", profiles.lower(), flags=re.MULTILINE)
    return [dict(cast("list[tuple[str, str]]", _LINE.findall(part))) for part in parts if part.strip()]


def is_latched(profile: Mapping[str, str]) -> bool:
    """Does this publisher keep messages for late subscribers?"""
    return profile.get("durability") in _TRANSIENT_LOCAL
