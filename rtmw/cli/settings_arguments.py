"""The settings of a daemon as options of its command, made from what it declares."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from rtmw.settings import Declaration, Setting, option_of

_LINK: Final = re.compile(r"\s*\(\[[^\]]*\]\([^)]*\)\)")


def add_settings(
    parser: argparse.ArgumentParser, declared: Declaration, types: Mapping[str, Callable[[str], Any]],
    without: Collection[str] = (),
) -> None:  # fmt: skip
    """An option for each setting, None where it is not given. `types`: of those that are no text. `without`: settings
    that have an option already."""
    for setting in declared.settings:
        if setting.name in without:
            continue
        option, help = option_of(setting.name), _help(setting)
        if setting.is_flag:
            parser.add_argument(option, action="store_true", default=None, help=help)
        else:
            nargs = "+" if setting.is_list else None
            kind = types.get(setting.name, str)
            parser.add_argument(option, nargs=nargs, metavar=setting.unit, type=kind, help=help)


def _help(setting: Setting) -> str:
    """Returns the help text of a setting, without Markdown."""
    text = f"{_LINK.sub('', setting.meaning)} (default: {setting.default})"
    return text.replace("`", "").replace("%", "%%")
