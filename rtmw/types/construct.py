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
