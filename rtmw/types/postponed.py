"""Annotations that are strings, because of `from __future__ import annotations`, put back to the objects they name.

cyclonedds reads a string only as the name of a class, and most programs postpone all annotations of a module.
"""

from __future__ import annotations

from typing import Any, get_args, get_type_hints


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
