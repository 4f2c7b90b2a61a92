"""How the decoder may make an object of a class: by storing attributes, or only by calling the class."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from inspect import getattr_static
from types import FunctionType, MemberDescriptorType
from typing import Any

from rtmw.errors import UnsupportedType


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
