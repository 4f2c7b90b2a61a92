"""The meaning of a code of the core to a Python program: one table, one function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rtmw import errors

Message = tuple[Callable[[str], Exception], str]
Blocker = tuple[str, int, str, int, int, bool]
"""A subscriber in the way of a publisher: program, pid, topic, depth, messages unread, whether its queue is full."""


def _table() -> dict[int, Message]:
    from rtmw.shm import _core as core

    return {
        core.NO_MEMORY: (
            errors.PoolExhausted,
            "topic {subject!r}: no memory for a loan of {detail} bytes: the pool is full of messages that somebody "
            "holds or still has to read{in_the_way}. Release samples sooner, make the domain with a larger pool, or "
            "see `rtmw doctor`",
        ),
        core.DEADLINE: (errors.DeadlineMissed, "topic {subject!r}: the deadline passed without a message"),
        core.CLOSED: (errors.ClosedError, "topic {subject!r}: used after close()"),
        core.TOO_LARGE: (
            errors.MessageTooLarge,
            "topic {subject!r}: a message of {detail} bytes is larger than what its priority may use of the pool; "
            "make the domain with a larger pool, or with a smaller reserve (`rtmw.Domain(id, pool=..., reserve=...)`)",
        ),
        core.BAD_NAME: (
            errors.TopicNameError,
            "{subject!r} is not a topic name: 1 to 191 bytes of UTF-8 are, without control characters, `*`, `?` and "
            "`[`. A publisher or subscriber has one topic; patterns are for rtmw.PatternSubscriber and rtmw.Recorder",
        ),
        core.NO_PARTICIPANT_SLOT: (
            errors.LimitReached,
            "domain {subject}: 127 processes are attached, and all of them live; end one, or use another domain. "
            "Only what looks on needs no place: rtmw.Domain({subject}, observe=True), `rtmw doctor`, `rtmw top`, and "
            "`rtmw topic list`, `info`, `hz`, `bw`, `delay` and `queue`. One `rtmw topic echo` or `rtmw trace` at a "
            "time has a place beside the 127; it cleans up after the dead once a second",
        ),
        core.NO_TOPIC_SLOT: (
            errors.LimitReached,
            "topic {subject!r}: every topic slot of the domain is taken by a topic that has a publisher or a "
            "subscriber, or is traced; close some, or make the domain with a larger pool",
        ),
        core.NO_ENDPOINT_SLOT: (
            errors.LimitReached,
            "topic {subject!r}: every endpoint slot of the domain is taken by a living process; close some, or make "
            "the domain with a larger pool",
        ),
        core.NO_TYPE_SLOT: (
            errors.LimitReached,
            "topic {subject!r}: every one of the 256 type slots of the domain is taken by a type that a publisher, a "
            "subscriber or a message in a queue has, if only as the last one of a topic that is in use; close some, "
            "`rtmw topic clear` topics that keep messages and that nobody uses, or use another domain",
        ),
        core.NOT_FOUND: (
            errors.DomainNotFound,
            "domain {subject} does not exist; rtmw.Domain({subject}) creates it, and so does a publisher",
        ),
        core.VERSION: (
            errors.VersionMismatch,
            f"domain {{subject}} has memory layout {{detail}}, and this rtmw speaks layout {core.LAYOUT_VERSION}; end "
            "its programs and run `rtmw clean`, or use the same version everywhere",
        ),
        core.DAMAGED: (
            errors.RegionDamaged,
            "{subject}: the region is half made, truncated, or contradicts itself; end its programs, run `rtmw clean`",
        ),
        core.OTHER_TIME: (
            errors.DomainError,
            "domain {subject} is of another time namespace than this process, whose monotonic clock shows another "
            "time: messages would expire too early or too late. Run all programs of a domain in one time namespace "
            "(without `unshare --time`, or in one container), or use another domain here",
        ),
        core.DENIED: (
            errors.AccessDenied,
            "domain {subject} belongs to another user; use another number, or run as that user",
        ),
        core.FORKED: (
            errors.ForkedError,
            "{subject}: made before fork() and used in the child; the child has to make its own rtmw objects",
        ),
        core.BAD_LOAN: (
            errors.RegionDamaged,
            "topic {subject!r}: the block of this loan is no longer lent to this process: another took it for "
            "dead, or wrote over the region; end this program and start it again",
        ),
        core.SWEPT: (
            errors.SweptError,
            "{subject}: another process took this one for dead and gave back what it had, because the file descriptor "
            "by which others see that it lives was closed. Make all rtmw objects anew, and let the program close only "
            "descriptors that it opened itself (no os.closerange, no closefrom)",
        ),
        core.BAD_QOS: (
            ValueError,
            "topic {subject!r}: a priority above 7, an unknown reliability, or a depth of 0",
        ),
        core.BAD_TIMES: (
            ValueError,
            "topic {subject!r}: a min_interval longer than the deadline, or a lease without RELIABLE",
        ),
        core.OBSERVER: (
            errors.DomainError,
            "{subject}: the domain was attached with observe=True, which is to look on only: publishing, subscribing, "
            "tracing and repairing need a domain without it",
        ),
        core.WRONG_TYPE: (
            errors.TypeMismatch,
            "a publisher of bytes was given {subject}; give bytes, bytearray or memoryview, or name the "
            "values' type, such as rtmw.Publisher(topic, str)",
        ),
    }


def blocker_words(blockers: Iterable[Blocker]) -> tuple[str, ...]:
    """Says who is in the way of a publisher, in one text a subscriber."""
    return tuple(
        f"{program} (pid {pid}): {unread} messages"
        + (f" unread, and its depth is {depth}" if is_full else f" of {topic!r} unread")
        for program, pid, topic, depth, unread, is_full in blockers
    )


def failure(code: int, subject: object, detail: int, blockers: Iterable[Blocker] = ()) -> Exception:
    """The exception for a code. `detail`: bytes, version, messages missed, or errno, as the code says."""
    from rtmw.shm import _core as core

    if code == core.LAPSED:
        return errors.LeaseExpired(
            f"topic {subject!r}: a publisher waited for this RELIABLE subscriber, or was refused again and again, for "
            f"longer than its lease, and went on without it; {detail} messages are gone. The next call goes on behind "
            "them",
            detail,
        )
    if code == core.TIMEOUT:
        waiting: Any = subject  # a subscriber, which knows why nothing comes
        words = f"topic {waiting.topic!r}: no message within the timeout", waiting._why_silent()
        return TimeoutError("; ".join(filter(None, words)))
    if code == core.DENIED and isinstance(subject, int):
        from rtmw.shm.region import denied

        return errors.AccessDenied(denied(subject))
    if code in (core.SYSTEM, core.NO_LOCKS):
        subject = f"domain {subject}" if isinstance(subject, int) else subject
        text = f"rtmw, {subject}: {core.explain(code, detail)}"
        if code == core.NO_LOCKS:
            return errors.NotPermitted(
                f"{text}. By file locks processes see each other live: fcntl(F_OFD_SETLK) on /dev/shm has to be "
                "allowed (seccomp; AppArmor: rwk), and Linux must be 3.15 or newer"
            )
        return OSError(detail, text)
    other = (errors.RtmwError, f"{{subject}}: {core.explain(code, 0)}")
    kind, text = _table().get(code, other)
    found = "; ".join(blocker_words(blockers))
    in_the_way = f" (in the way: {found})" if found else ""
    return kind(text.format(subject=subject, detail=detail, in_the_way=in_the_way))
