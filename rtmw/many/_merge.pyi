"""The order of the messages of many subscribers; see _merge.c."""

from types import GenericAlias
from typing import Any, Generic, TypeVar, final

from typing_extensions import disjoint_base

from rtmw.shm import Sample
from rtmw.subscriber import Subscriber

_T = TypeVar("_T")

@final
class Source(Generic[_T]):
    """A subscriber among many, and what is counted of it."""

    def __init__(self, subscriber: Subscriber[_T], passed: tuple[int, ...], /) -> None:
        """`passed`: it begins behind these sequences, by priority."""

    @property
    def subscriber(self) -> Subscriber[_T]: ...
    @property
    def held(self) -> int:
        """Messages that were taken ahead, and `held_bytes` of them."""

    @property
    def held_bytes(self) -> int: ...
    @property
    def missed(self) -> int:
        """Messages that were gone before it began behind `passed`."""

    @property
    def expired(self) -> int:
        """Messages that were held when their time was over, and given to nobody; `expired_bytes` of them."""

    @property
    def expired_bytes(self) -> int: ...

@disjoint_base
class Merge(Generic[_T]):
    """The subclass has `_follow()`, which adds sources and removes some, and `_check()`, which raises what is wrong."""

    def take(self) -> Sample[_T] | None: ...
    def take_many(self, limit: int, /) -> list[Sample[_T]]: ...
    def _add(self, source: Source[_T], /) -> None: ...
    def _remove(self, source: Source[_T], /) -> bool:
        """False: messages of it are in the heap, or a take of it is on its way."""

    def _advance(self, source: Source[_T], /) -> bool:
        """Take its next message into the heap. False: there is none."""

    def _look_whole(self) -> None:
        """From now on each look takes from all, so that their descriptors are not readable for nothing."""

    def _shut(self) -> None: ...
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...
