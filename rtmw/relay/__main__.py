"""`python -m rtmw.relay`: the process that `rtmw node` starts for `serve = ["relay"]` (rtmw.net.service)."""

from __future__ import annotations

import sys
from contextlib import nullcontext

from rtmw.net.service import Asked, run_service
from rtmw.relay.server import Server
from rtmw.relay.settings import Relay, read_relay
from rtmw.settings import SettingsError


def main() -> int:
    return run_service("rtmw.relay", _begin, lambda server, asked: server.obey(_settings(asked)))


def _begin(asked: Asked) -> nullcontext[Server]:
    return nullcontext(Server(asked.data / "relay", _settings(asked), asked.domain))  # its run closes it


def _settings(asked: Asked) -> Relay:
    if asked.config is None:
        raise SettingsError("a relay needs a settings file, which names its agents; give --config FILE")
    return read_relay(asked.config)


if __name__ == "__main__":
    sys.exit(main())
