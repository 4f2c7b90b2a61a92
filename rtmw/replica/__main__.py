"""`python -m rtmw.replica`: the process that `rtmw node` starts for `serve = ["log"]` (rtmw.net.service)."""

from __future__ import annotations

import sys
from contextlib import nullcontext

from rtmw.net.service import Asked, run_service
from rtmw.replica.control.settings import LogSettings, read_log
from rtmw.replica.server import Server
from rtmw.settings import SettingsError


def main() -> int:
    return run_service("rtmw.replica", _begin, _obey)


def _begin(asked: Asked) -> nullcontext[Server]:
    return nullcontext(Server(asked.data, asked.node, _settings(asked), asked.domain))  # its run closes it


def _obey(server: Server, asked: Asked) -> None:
    server.obey(_settings(asked))


def _settings(asked: Asked) -> LogSettings:
    if asked.config is None:
        raise SettingsError(
            "a node that serves logs needs a settings file with [log] and [control]; give --config FILE"
        )
    return read_log(asked.config)


if __name__ == "__main__":
    sys.exit(main())
