"""The node as a systemd service: its unit, filled in for this installation."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from shlex import quote
from string import Template
from typing import Any, cast


def systemd_unit(config: Path | None, given: Mapping[str, Any], *, json: bool = False) -> str:
    """The text of rtmw-node.service, which starts the node with the same settings: those of the file `config`, those
    that are `given` on the command line, and the environment's RTMW_DOMAIN."""
    command = [sys.executable, "-m", "rtmw", "node", *_options(config, given, json)]
    domain = os.environ.get("RTMW_DOMAIN")
    template = Template((files("rtmw.net") / "rtmw-node.service").read_text(encoding="utf-8"))
    return template.substitute(
        user=pwd.getpwuid(os.getuid()).pw_name,
        command=" ".join(map(_word, command)),
        environment=f"Environment={_word(f'RTMW_DOMAIN={domain}')}\n" if domain else "",
    )


def _options(config: Path | None, given: Mapping[str, Any], json: bool) -> Iterator[str]:
    if config is not None:
        yield from ("--config", str(config.absolute()))
    for name, value in given.items():
        if value is None:
            continue
        yield f"--{name.replace('_', '-')}"
        if isinstance(value, list):
            yield from cast("list[str]", value)
        elif value is not True:
            yield str(value)
    if json:
        yield "--json"


def _word(word: str) -> str:
    """Quotes a word for systemd, which replaces what follows % and $ even between quotes."""
    return quote(word).replace("%", "%%").replace("$", "$$")
