"""Names of peers: of nodes in certificates, `rtmw://site/node`, of users of this host, `uid:1000`, and of agents of a
relay, `agent:AODB`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

SCHEME: Final = "rtmw://"
AGENT: Final = "agent:"
"""Before the name of an agent of a relay, as its settings have it."""
USER: Final = "uid:"
"""Before the number of a user, whom the kernel names at a Unix socket."""
_NAME: Final = re.compile(r"rtmw://([a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?)/([A-Za-z0-9][A-Za-z0-9._-]{0,62})")
"""No character that a pattern gives a meaning to: `{node}` of a rule is replaced by the node's name."""


def user_name(uid: int) -> str:
    """The name of a peer that is a user of this host."""
    return f"{USER}{uid}"


def is_user(name: str) -> bool:
    """Has the kernel named this peer, and no certificate?"""
    return name.startswith(USER)


def is_own_user(name: str) -> bool:
    """Is it the user as whom this process runs, or root?"""
    return name in (user_name(os.getuid()), user_name(0))


def is_agent(name: str) -> bool:
    """Is it an agent of a relay?"""
    return name.startswith(AGENT)


@dataclass(frozen=True)
class Name:
    """A node of a site."""

    site: str
    node: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.site}/{self.node}"


def parse_name(text: str) -> Name:
    """Raises ValueError, which says what a name is."""
    found = _NAME.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{text!r} is no name of a node; a name is rtmw://SITE/NODE, such as rtmw://plant/press-7: "
            "SITE of a-z, 0-9, '.' and '-', NODE of letters, digits, '.', '_' and '-', each at most 63"
        )
    return Name(found[1], found[2])
