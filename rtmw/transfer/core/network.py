"""The network settings of a core: where it meets other cores, its keys, and what these may send."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rtmw.net.security.names import parse_name
from rtmw.net.security.rules import NO_RULES, RuleTable
from rtmw.net.security.tables import NO_LINK, Link, read_transfer
from rtmw.transfer.errors import TransferError

if TYPE_CHECKING:
    from rtmw.net.security.identity import Identity

__all__ = ["Network", "read_network"]


@dataclass(frozen=True)
class Network:
    """`[transfer]` and `[[allow]]`, with the keys that they name."""

    link: Link = NO_LINK
    rules: RuleTable = NO_RULES
    identity: Identity | None = None


def read_network(path: Path | None, node: str) -> Network:
    """`node`: name of this one. None: there is no file, and so no other node.

    Raises RulesError, KeysError; TransferError: the certificate is of another node.
    """
    if path is None:
        return Network()
    link, rules = read_transfer(path)
    if not link.is_used or link.keys is None:
        return Network(link, rules)
    from rtmw.net.security.identity import Identity  # needs `cryptography`, which a node without keys does not

    identity = Identity.load(link.keys, link.revoked)
    named = parse_name(identity.name).node
    if named != node:
        raise TransferError(
            f"this node is called {node!r}, and its certificate is of {identity.name}: addresses name nodes as their "
            f'certificates do; set name = "{named}" in {path}, or --name {named}'
        )
    return Network(link, rules, identity)
