"""What a node's endpoint says of itself arrives from anybody."""

from __future__ import annotations

import json
import zlib

import pytest

from rtmw.errors import RegionDamaged
from rtmw.net.dds import routes
from rtmw.net.dds.routes import Lane
from rtmw.qos import Reliability
from rtmw.types import resolve
from rtmw.types.message_type import DESCRIPTION_LIMIT
from topics.river import Reading


def test_a_description_names_the_type_though_no_classes_are_made_for_it() -> None:
    kind = resolve(Reading)
    found = routes.type_in(routes.describe_endpoint(Lane(Reliability.RELIABLE, False), kind))
    assert (found.name, found.identity, found.description) == (kind.name, kind.identity, kind.description)


def test_a_refused_description_is_refused_again_without_being_read_again() -> None:
    """Its endpoint is looked at ten times a second."""
    document = {"kind": "cdr", "name": "A", "xcdr": 9, "extensibility": "final", "fields": [], "types": {}}
    strange = b"R" + zlib.compress(json.dumps(document).encode())
    before, said = routes._judged.cache_info(), set[str]()
    for _ in range(100):
        with pytest.raises(RegionDamaged) as refused:
            routes.type_in(strange)
        said.add(str(refused.value))
    after = routes._judged.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits, len(said)) == (1, 99, 1)


def test_a_description_that_no_node_writes_is_not_kept() -> None:
    before = routes._judged.cache_info()
    with pytest.raises(RegionDamaged, match="none has more"):
        routes.type_in(b"R" * (DESCRIPTION_LIMIT + 2))
    assert routes._judged.cache_info() == before
