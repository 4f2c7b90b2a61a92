"""Labels of unions are values of the discriminator, whatever other unions of the program have."""

from dataclasses import dataclass

import cyclonedds.idl.types as t
import pytest
from cyclonedds.idl import IdlStruct, IdlUnion

from rtmw.recording.schemas.idl import to_idl
from rtmw.types import resolve
from rtmw.types.classes import describe
from rtmw.types.schema import Union


class Flag(IdlUnion, discriminator=bool, typename="labels.Flag"):
    yes: t.case[True, t.float32]


class Number(IdlUnion, discriminator=t.int32, typename="labels.Number"):
    """`typing` has the cases of Flag for those of this one, since 1 is True."""

    one: t.case[1, t.float32]
    none: t.case[0, t.float32]


@dataclass
class Flags(IdlStruct, typename="labels.Flags"):
    flag: Flag


@dataclass
class Numbers(IdlStruct, typename="labels.Numbers"):
    number: Number


@pytest.mark.parametrize(
    ("kind", "name", "labels"), [(Flags, "labels::Flag", [True]), (Numbers, "labels::Number", [1, 0])]
)
def test_a_label_has_the_type_of_the_discriminator(kind: type, name: str, labels: list[int]) -> None:
    union = describe(kind)[0].types[name]
    assert isinstance(union, Union)
    found = [label for case in union.cases for label in case.labels]
    assert [(type(label), label) for label in found] == [(type(label), label) for label in labels]


def test_a_union_of_numbers_has_numbers_in_its_idl_and_its_description() -> None:
    text = to_idl(describe(Numbers)[0])
    assert "case 1:" in text
    assert "case 0:" in text
    assert resolve(Numbers).description != resolve(Flags).description
