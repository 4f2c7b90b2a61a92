"""How the decoder may make an object of a class: by storing attributes, or only by calling the class."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from inspect import getattr_static
from types import FunctionType, MemberDescriptorType
from typing import Any


def stores_directly(cls: Any) -> bool:
    """Whether storing every field does all that the constructor would: no code of the user's is skipped."""
    init = cls.__init__
    return (
        is_dataclass(cls)
        and isinstance(init, FunctionType)
        and init.__code__.co_filename == "<string>"  # written by dataclasses, not by a person
        and not hasattr(cls, "__post_init__")
        and cls.__setattr__ is object.__setattr__
        and cls.__new__ is object.__new__
        and not any(_intercepted(cls, member.name) for member in fields(cls))
    )


def constructor_call(cls: Any, variables: dict[str, str]) -> str:
    """Arguments that hand each field its variable, by name where the order is not the constructor's."""
    order = [member.name for member in fields(cls) if member.init and not member.kw_only] if is_dataclass(cls) else []
    if order == list(variables) and cls.__init__.__code__.co_filename == "<string>":
        return ", ".join(variables.values())
    return ", ".join(f"{name}={variable}" for name, variable in variables.items())


def _intercepted(cls: Any, name: str) -> bool:
    """Whether a property or the like stands between an assignment and the instance."""
    found: Any = getattr_static(cls, name, None)
    return hasattr(found, "__set__") and not isinstance(found, MemberDescriptorType)
