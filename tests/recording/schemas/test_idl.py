"""`rtmw.recording.schemas.idl`, `idl_syntax` and `idl_reader`: schemas as IDL, and IDL as schemas."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Optional

import cyclonedds.idl.types as t
import pytest
from cyclonedds.idl import IdlStruct, make_idl_enum, make_idl_struct, make_idl_union
from cyclonedds.idl.annotations import mutable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rtmw.errors import UnsupportedType
from rtmw.recording.schemas.idl import KEYWORDS, to_idl
from rtmw.recording.schemas.idl_reader import from_idl
from rtmw.types import resolve
from rtmw.types.schema import (
    Array,
    Bitmask,
    Enumeration,
    Field,
    Maybe,
    Named,
    Primitive,
    Schema,
    Sequence,
    Struct,
    Text,
)
from tests.recording.layouts import described, layout
from tests.types import messages
from tests.types.idl_strategies import messages as random_messages
from topics import airport, river, telemetry

KINDS = {
    cls.__idl_typename__: cls
    for module in (messages, river, airport, telemetry)
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, IdlStruct) and cls is not IdlStruct
}
GENERATE = (Phase.generate,)
"""Without shrinking: each example starts a compiler."""
EVERY = ("union", "optional", "appendable", "mutable")


def schema_of_class(cls: Any) -> Schema:
    return described(resolve(cls).description)


def struct(**members: Any) -> Any:
    return make_idl_struct("Made", "mod.Made", members)


def check_compiled(folder: Path, *pairs: tuple[Schema, bytes]) -> None:
    """The IDL compiler makes the same types of our IDL, whose classes read and write the same payloads."""
    asked = [(schema.name, to_idl(schema), payload.hex()) for schema, payload in pairs]
    program, words = Path(__file__).with_name("idlc_types.py"), json.dumps(asked)
    done = subprocess.run(
        [sys.executable, program], cwd=folder, input=words, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, f"{done.stderr}\n{asked}"
    for (schema, payload), (description, again) in zip(pairs, json.loads(done.stdout), strict=True):
        assert layout(described(bytes.fromhex(description))) == layout(schema), to_idl(schema)
        assert again == payload.hex()


@pytest.mark.parametrize("name", KINDS)
def test_a_type_comes_back_from_its_idl(name: str) -> None:
    schema = schema_of_class(KINDS[name])
    assert layout(from_idl(to_idl(schema), schema.name)) == layout(schema)


@given(random_messages(*EVERY))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_random_types_come_back_from_their_idl_or_are_refused_in_words(made: tuple[Any, Any]) -> None:
    schema = schema_of_class(made[0])
    try:
        text = to_idl(schema)
    except UnsupportedType as error:
        text = str(error)
    if "list of numbers in XCDR2" not in text:
        assert layout(from_idl(text, schema.name)) == layout(schema)


@given(st.lists(random_messages("union", "optional", "appendable"), min_size=4, max_size=8))
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, phases=GENERATE)
def test_the_idl_compiler_of_cyclonedds_makes_the_same_types_of_our_idl(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[Any, Any]]
) -> None:
    pairs = [(schema_of_class(cls), value.serialize()) for cls, value in made]
    check_compiled(tmp_path_factory.mktemp("idlc"), *(pair for pair in pairs if compilable(pair[0])))


def compilable(schema: Schema) -> bool:
    """Has it IDL, and no wchar, which the compiler's Python lacks?"""
    try:
        return "wchar" not in to_idl(schema)
    except UnsupportedType:
        return False


def test_the_compiler_makes_the_same_types_of_the_idl_of_our_topics(tmp_path: Path) -> None:
    kinds = [cls for cls in KINDS.values() if cls.__module__.startswith("topics.")]
    assert len(kinds) >= 12
    filled = [cls(**{next(iter(cls.__dataclass_fields__)): "here"}) for cls in kinds]
    check_compiled(tmp_path, *((schema_of_class(type(value)), value.serialize()) for value in filled))


def test_every_keyword_of_idl_can_be_the_name_of_a_field(tmp_path: Path) -> None:
    words = sorted(KEYWORDS - {"import", "in", "from", "true", "false"})
    cls = struct(**{word: t.int32 for word in words})
    schema = schema_of_class(cls)
    assert layout(from_idl(to_idl(schema), schema.name)) == layout(schema)
    check_compiled(tmp_path, (schema, cls(*range(len(words))).serialize()))


def test_a_name_that_python_keeps_for_itself_gets_an_underscore() -> None:
    schema = from_idl("struct A { long lambda; enum_ x; }; enum enum_ { from, to };", "A")
    assert schema.top.fields[0] == Field("lambda_", Primitive("int32"), {"name": "lambda"})
    assert schema.types["enum_"] == Enumeration((("from_", 0), ("to", 1)))
    assert "long lambda;" in to_idl(schema)


def test_enumerators_that_two_enums_of_a_module_share_are_told_apart(tmp_path: Path) -> None:
    first = make_idl_enum("First", "mod.First", {"NONE": 0, "SOME": 1})
    second = make_idl_enum("Second", "mod.Second", {"NONE": 0, "First": 5})
    choice = make_idl_union("Choice", "mod.Choice", {"a": t.case[[second(5)], t.int32]}, second)
    cls = struct(one=first, two=second, three=choice)
    schema = schema_of_class(cls)
    check_compiled(tmp_path, (schema, cls(first(1), second(5), choice(a=7)).serialize()))
    assert from_idl(to_idl(schema), schema.name).types["mod::Second"] == Enumeration(
        (("Second_NONE", 0), ("Second_First", 5))
    )


def test_a_type_within_itself_is_declared_before_it_is_used(tmp_path: Path) -> None:
    schema = schema_of_class(messages.Tree)
    leaf = messages.Tree(2, [])
    assert to_idl(schema).index("struct Tree;") < to_idl(schema).index("sequence<Tree>")
    check_compiled(tmp_path, (schema, messages.Tree(1, [leaf, messages.Tree(3, [leaf])]).serialize()))


def test_a_sequence_of_arrays_gets_a_name_for_the_array(tmp_path: Path) -> None:
    cls = struct(rows=t.sequence[t.array[t.array[t.int16, 3], 2], 4])
    schema = schema_of_class(cls)
    assert "typedef short Made_rows_element[2][3];" in to_idl(schema)
    assert layout(from_idl(to_idl(schema), schema.name)) == layout(schema)
    check_compiled(tmp_path, (schema, cls([[[1, 2, 3], [4, 5, 6]]]).serialize()))


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"lookup": dict[str, t.int32]}, "mod::Made.lookup is a map"),
        ({"maybe": Optional[t.int32], "row": list[t.int32]}, "mod::Made.row is a list of numbers in XCDR2"),  # noqa: UP045
    ],
)
def test_what_idl_cannot_say_is_refused_by_name(members: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedType, match=words):
        to_idl(schema_of_class(struct(**members)))


def test_an_enum_says_how_many_bytes_it_takes_on_the_wire() -> None:
    for xcdr, bound, annotation in ((1, 8, None), (2, 8, 8), (2, 9, 8), (2, 16, 16), (2, 32, None), (2, None, None)):
        types = {"A": Struct((Field("e", Named("E")),)), "E": Enumeration((("X", 0),), bound)}
        text = to_idl(Schema("A", xcdr, types))
        assert (f"@bit_bound({annotation})" in text) if annotation else ("bit_bound" not in text)
    types = {"A": Struct((Field("e", Named("E")),)), "E": Enumeration((("X", 0),), 4)}
    with pytest.raises(UnsupportedType, match="E travels in 8 bytes"):
        to_idl(Schema("A", 2, types))


def test_members_keep_their_annotations() -> None:
    text = """@mutable @autoid(HASH) struct A {
        @key @id(0x10) long a; @hashid("other") string b; @hashid long c; @must_understand @optional double d;
        @optional(FALSE) @key(false) long e; };"""
    kept = [member.annotations for member in from_idl(text.replace("(false)", "(FALSE)"), "A").top.fields]
    assert kept == [{"key": True, "id": 16}, {"hash_id": "other"}, {"hash_id": ""}, {"must_understand": True}, {}]
    assert from_idl(text.replace("(false)", "(FALSE)"), "A").top.annotations == {
        "extensibility": "mutable",
        "autoid": "hash",
    }


def test_constants_comments_directives_and_inheritance_are_understood() -> None:
    text = """
        #include "other.idl"
        /* a comment; with { marks */
        module a {
            const unsigned long SIZE = (2 + 3) * 4 - 0x10 / 2 % 5; // 17
            const long SHIFTED = 1 << 3 | 1;
            module b { const long INNER = a::SIZE - ::a::SHIFTED; typedef octet Bytes[INNER]; };
            @final struct Base { @default(value=3) long first, second[2]; };
            @verbatim(language="comment", text="two " "parts; }")
            struct Top : Base { b::Bytes data; sequence<string<SHIFTED>, SIZE> names; A more; };
            enum A { ONE, @value(b::INNER) EIGHT };
        };"""
    schema = from_idl(text, "a::Top")
    assert [(member.name, member.node) for member in layout(schema).top.fields] == [
        ("first", Primitive("int32")),
        ("second", Array(Primitive("int32"), 2)),
        ("data", Array(Primitive("octet"), 8)),
        ("names", Sequence(Text(9), 17)),
        ("more", Named("a::A")),
    ]
    assert schema.types["a::A"] == Enumeration((("ONE", 0), ("EIGHT", 8)))


def test_bitmasks_unions_and_their_labels_are_understood() -> None:
    text = """
        @bit_bound(12) bitmask M { low, @position(4) high, higher };
        enum E { X, Y, Z };
        @appendable union U switch (E) { case X: case E::Y: long a; default: case Z: M b; };
        union C switch (char) { case 'a': case '\\'': case '\\x41': long a; };
        union B switch (boolean) { case TRUE: long a; };
        struct S { U u; C c; B b; };"""
    schema = from_idl(text, "S")
    unions: Any = schema.types
    assert schema.types["M"] == Bitmask((("low", 0), ("high", 4), ("higher", 5)), 12)
    assert [case.labels for case in unions["U"].cases] == [(0, 1), ()]
    assert unions["C"].cases[0].labels == ("a", "'", "A")
    assert (unions["U"].implicit, unions["C"].implicit, unions["B"].implicit) == (3, "\0", False)


def test_types_that_may_grow_travel_as_xcdr2() -> None:
    assert from_idl("struct A { long a; };", "A").xcdr == 1
    assert from_idl("struct A { @optional long a; };", "A").xcdr == 2
    assert from_idl("@appendable struct B { long a; }; struct A { sequence<B> b; };", "A").xcdr == 2
    assert from_idl("@final @data_representation(XCDR2) struct A { long a; };", "A").xcdr == 2
    assert from_idl("@appendable struct A { long a; };", "A", xcdr=1).xcdr == 1
    assert from_idl("struct A { long a; };", "A", extensibility="appendable").top.extensibility == "appendable"
    assert from_idl("struct A { @optional long a; };", "A").top.fields[0].node == Maybe(Primitive("int32"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("struct A { wstring a; };", "wstring cannot be decoded"),
        ("struct A { long double a; };", "long double cannot be decoded"),
        ("struct A { any a; };", "any cannot be decoded"),
        ("interface I { void f(in long x); }; struct A { I a; };", "I is a interface, which no message can hold"),
        ("struct A { B b; };", "does not define B"),
        ("struct A { long a[N]; };", "does not define the constant N"),
        ("struct A { long a[0]; };", "0 is no length"),
        ("const long N = 1 / 0; struct A { long a[N]; };", "which fails"),
        ("const long N = 1 << 4000; struct A { long a[N]; };", "which fails"),
        ("struct B { long a; };", "no struct A, but B"),
        ("", "no struct A, but none at all"),
        ("struct A { long a }; ", "line 1: ';' expected, '}' found"),
        ("struct A {\n long a;", "line 2: a name expected, 'the end of the text' found"),
        ("module m { struct A { long a; };", "'}' expected"),
        ("strukt A { long a; };", "line 1: a definition expected, 'strukt' found"),
        ("union A switch (long) { case 1: long a; };", "no struct A"),
        ("struct A { " + "sequence<" * 3000 + "long" + ">" * 3000 + " a; };", "nested too deeply"),
        ("const long N = N; struct A { long a[N]; };", "nested too deeply"),
        ("typedef T T; struct A { T a; };", "nested too deeply"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_what_and_where(text: str, words: str) -> None:
    with pytest.raises(UnsupportedType, match=words):
        from_idl(text, "A")


def chain(link: str, last: str, use: str, length: int = 40) -> str:
    """Links that lead each to the next one."""
    links = [link.format(i, i + 1) for i in range(length)]
    return "\n".join([*links, last.format(length), f"struct A {{ {use}; }};"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (chain("const long A{0} = A{1} * A{1};", "const long A{0} = 3;", "long a[A0]"), "no place in 64 bits"),
        (chain('const string A{0} = A{1} + A{1};', 'const string A{0} = "a";', "@hashid(A0) long a"), "only numbers"),
        (chain("typedef map<A{1}, A{1}> A{0};", "typedef long A{0};", "A0 a"), "nested too deeply"),
        (chain("typedef sequence<A{1}> A{0};", "typedef long A{0};", "A0 a"), "nested too deeply"),
        (chain("struct A{0} : A{1} {{ long a{0}; }};", "struct A{0} {{ long a; }};", "A0 a", 99), "than 64 others"),
        ("struct A : A { long a; };", "from itself"),
        ("enum E { @value(X) X }; struct A { E e; };", "X is computed of itself|E is computed of itself"),
        ('enum E { @value("x") X }; struct A { E e; };', "'x', which is no number"),
        ("enum E { @value X }; struct A { E e; };", "None, which is no number"),
        ("const double D = 1e999; struct A { @id(D) long a; };", "no place in 64 bits"),
        ("struct A { long a[" + "9" * 5000 + "]; };", "a number of 5000 digits"),
        ("struct A { long a[18446744073709551616]; };", "no place in 64 bits"),
        ("struct A { long a[" + "(" * 99 + "1" + ")" * 99 + "]; };", "nested too deeply"),
        ("module m { " * 99 + "}; " * 99, "nested too deeply"),
        ("struct A { " + "a::" * 99 + "b c; };", "a name of more than 16 parts"),
        (f"struct A {{ long {'a' * 128}; }};", "128 characters; at most 127"),
        ('const string S = "never ended; struct A { long a; };', "a text without an end"),
        ("struct A {" + "".join(f"long a{i};" for i in range(5000)) + "};", "more than 4096 members"),
        ("".join(f"struct S{i} {{ long a; }};" for i in range(300)) + "struct A {"
         + "".join(f"S{i} a{i};" for i in range(300)) + "};", "more than 256 definitions"),
        ("long " * 70_000, "more than 65536 words"),
        ("/" * (1 << 21), "at most 1048576 are read"),
    ],
)  # fmt: skip
def test_what_would_grow_without_end_is_refused_before_it_does(text: str, words: str) -> None:
    with pytest.raises(UnsupportedType, match=words):
        from_idl(text, "A")


@pytest.mark.parametrize(
    "text",
    [
        chain("const long A{0} = A{1} + A{1};", "const long A{0} = 0;", "long a[A0 + 1]"),
        chain("enum A{0} {{ @value(B{1} + B{1}) B{0} }};", "enum A{0} {{ B{0} }};", "A0 a"),
        chain("const long A{0} = A{1} + 1 - 1;", "const long A{0} = 1;", "long a[A0]"),
    ],
)
def test_a_constant_is_computed_once_however_many_need_it(text: str) -> None:
    """Of forty, each the sum of the next with itself, the first one needs a million millions of the last."""
    assert len(from_idl(text, "A").top.fields) == 1


@pytest.mark.parametrize("piece", ["/*", '"\\', "'\\", "/* /", "=" * 9, "1" * 9])
def test_a_text_is_looked_through_once_whatever_does_not_end_in_it(piece: str) -> None:
    """A comment without its end was looked for at each of its characters: minutes for what is read in a second."""
    with pytest.raises(UnsupportedType):
        from_idl("x " + piece * (1_000_000 // len(piece)), "A")


@pytest.mark.parametrize(
    ("text", "value"),
    [('"a\\tb"', "a\tb"), ('"\\x41\\u00e9\\101"', "AéA"), ('"a" "b"', "ab"), ('L"a\\"b"', 'a"b'), ('"a\nb"', "a\nb")],
)
def test_texts_are_what_idl_says_they_are(text: str, value: str) -> None:
    made = from_idl(f"struct A {{ @hashid({text}) long a; }};", "A")
    assert made.top.fields[0].annotations["hash_id"] == value


def test_what_no_message_needs_may_be_unsupported() -> None:
    text = "interface I { void f(in long x); }; native N; bitset B { bitfield<3> a; }; struct A { long a; };"
    assert from_idl(text, "A").top.fields == (Field("a", Primitive("int32")),)


@given(st.text(alphabet="struct enum{}[]<>;:@()=\"'\\/*#\n 019aAé", max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_text_breaks_the_parser(text: str) -> None:
    with suppress(UnsupportedType):
        from_idl(text + " struct A { long a; };", "A")


def test_a_mutable_type_has_idl_too(tmp_path: Path) -> None:
    cls = mutable(struct(first=t.int32, second=str))
    schema = schema_of_class(cls)
    assert layout(from_idl(to_idl(schema), schema.name)) == layout(schema)
    check_compiled(tmp_path, (schema, cls(1, "two").serialize()))
