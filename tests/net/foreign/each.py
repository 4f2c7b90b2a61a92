"""Writes each.h, which fast.cpp includes: the types that fastddsgen made, and what their members are called.

python each.py FILE=MODULE[,MODULE]..., from the folder with the Python modules that cyclonedds' IDL compiler made of
FILE.idl.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from cyclonedds.idl import IdlStruct, IdlUnion

HEAD = """#include <type_traits>
#define dummy dummy_{file}
#include "{file}.cxx"
#include "{file}PubSubTypes.cxx"
#undef dummy
"""


def of_struct(name: str, kind: Any) -> Iterator[str]:
    yield f"template <class F> void each(F &f, {name} &v)\n{{"
    yield from (f"    f(v.{field.name}());" for field in fields(kind))
    yield "}"


def of_union(name: str, kind: Any) -> Iterator[str]:
    """A member of a union must not be looked at while it is not the one that counts."""
    yield f"template <class F> void each(F &f, {name} &v)\n{{\n    auto which = v._d();\n    f(which);"
    for member, hint in get_type_hints(kind, include_extras=True).items():
        is_this = " || ".join(f"which == {label}" for label in hint.__metadata__[0].labels)
        yield f"    if ({is_this}) {{"
        yield f"        std::decay_t<decltype(v.{member}())> member{{}};"
        yield f"        if (v._d() == which) member = v.{member}();"
        yield f"        f(member);\n        v.{member}(member);\n        v._d(which);\n    }}"
    yield "}"


def of_module(module: str, registered: list[str]) -> Iterator[str]:
    made, scope = importlib.import_module(module), module.replace(".", "::")
    for short, kind in ((short, getattr(made, short)) for short in made.__all__):
        if issubclass(kind, IdlStruct):
            yield from of_struct(f"{scope}::{short}", kind)
            registered.append(f"    add_kind<{scope}::{short}, {scope}::{short}PubSubType>();")
        elif issubclass(kind, IdlUnion):
            yield from of_union(f"{scope}::{short}", kind)


def each(files: list[str]) -> Iterator[str]:
    registered: list[str] = []
    for file, _, modules in (given.partition("=") for given in files):
        yield HEAD.format(file=file)
        for module in modules.split(","):
            yield from of_module(module, registered)
    yield "template <class T, class Support> void add_kind();\nstatic void add_kinds()\n{"
    yield from registered
    yield "}"


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    Path("each.h").write_text("\n".join(each(sys.argv[1:])) + "\n")
