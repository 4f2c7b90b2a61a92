"""The channels of a recording, as a table sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rtmw.recording.frames.scan import Stream
from rtmw.recording.versions import Sighting, Version, dds_name, seen_in, some

if TYPE_CHECKING:
    from rtmw.recording.contents import Channel, Chunk
    from rtmw.recording.recording import Recording

ADVICE: Final = "typed=False gives payloads, and type_version=… the messages of one version"


def stream_of(recording: Recording, channel: Channel, typed: bool) -> Stream:
    """A channel. `typed`: its members may become columns, so what its type consists of is looked up."""
    description, problem = recording.described(channel) if typed else (None, "")
    return Stream(channel.topic, recording.type_name(channel), description, problem)


def sightings(chunks: Sequence[Chunk], streams: Mapping[int, Stream]) -> Iterator[Sighting]:
    """The messages of these channels, for `versions_of`."""
    seen = seen_in(chunks)
    for number, stream in streams.items():
        about = (stream.type_name, stream.description, stream.problem, stream.topic)
        yield Sighting(*about, *seen.get(number, (0, 0)))


def common_type(versions: Sequence[Version]) -> tuple[bytes, ...]:
    """Descriptions of the versions of the one type that messages have; none: it has no members. Raises ValueError."""
    if len({dds_name(version.type_name) for version in versions}) > 1:
        raise ValueError(f"columns can be those of one type; there are {some(versions)}. {ADVICE}")
    problems = [version.problem for version in versions if version.problem]
    if problems:
        raise ValueError(f"{problems[0]}; there are {some(versions)}. {ADVICE}")
    return tuple(version.description for version in versions if version.description is not None)
