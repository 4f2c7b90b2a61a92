"""The node as a systemd service: its unit, filled in for this installation."""

from __future__ import annotations

import os
import pwd
import sys
from importlib.resources import files
from pathlib import Path
from shlex import quote
from string import Template


def systemd_unit(config: Path | None) -> str:
    """The text of rtmw-node.service. `config`: the file that the node is to read."""
    command = [sys.executable, "-m", "rtmw", "node", *(["--config", str(config.absolute())] if config else [])]
    template = Template((files("rtmw.net") / "rtmw-node.service").read_text(encoding="utf-8"))
    user = pwd.getpwuid(os.getuid()).pw_name
    return template.substitute(user=user, command=" ".join(quote(word).replace("%", "%%") for word in command))
