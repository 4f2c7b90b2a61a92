/* Codes in words, for people. */
#include <errno.h>
#include <stdio.h>

#include "core.h"

const char *rtmw_describe(int code)
{
    static const char *const sentences[] = {
        [RTMW_OK] = "done",
        [RTMW_EMPTY] = "there is nothing to take",
        [RTMW_FULL] = "the queue of a RELIABLE subscriber is full",
        [RTMW_NO_MEMORY] = "no descriptor or block is free, and none may be evicted",
        [RTMW_TIMEOUT] = "the time is up",
        [RTMW_DEADLINE] = "the deadline passed without a message",
        [RTMW_INTERRUPTED] = "a signal came, or another thread woke it",
        [RTMW_LAPSED] = "the lease of this RELIABLE subscriber ran out",
        [RTMW_CLOSED] = "the handle was closed",
        [RTMW_TOO_LARGE] = "larger than the pool",
        [RTMW_BAD_NAME] = "not a topic name: empty, longer than 191 bytes, or with control characters, *, ? or [",
        [RTMW_BAD_QOS] = "a priority above 7, an unknown reliability, or a depth of 0",
        [RTMW_NO_PARTICIPANT_SLOT] = "every participant slot is taken by a living process",
        [RTMW_NO_TOPIC_SLOT] = "every topic slot is taken",
        [RTMW_NO_ENDPOINT_SLOT] = "every endpoint slot is taken by a living process",
        [RTMW_NO_TYPE_SLOT] = "every type slot is taken by a type that a publisher, a subscriber or a message has, or "
                              "is kept for this host",
        [RTMW_NOT_FOUND] = "there is no such domain",
        [RTMW_VERSION] = "the region was made by another version",
        [RTMW_DAMAGED] = "the region is half made, truncated, or contradicts itself",
        [RTMW_DENIED] = "the region belongs to another user",
        [RTMW_FORKED] = "the handle belongs to the parent process",
        [RTMW_SYSTEM] = "a system call failed",
        [RTMW_BAD_LOAN] = "this loan is not lent: it was published or dropped before, or was made larger",
        [RTMW_BAD_RELEASE] = "this process holds no such message: it was released before",
        [RTMW_EXISTS] = "there is such a domain already",
        [RTMW_NO_SPACE] = "/dev/shm has no room for it",
        [RTMW_BAD_SIZE] = "a pool has 64 KiB to 512 GiB, and a reserve half of it at most",
        [RTMW_NO_TYPE] = "there is no such type",
        [RTMW_SWEPT] = "another process took this one for dead, because its file descriptor of the region was closed",
        [RTMW_NO_LOCKS] = "the kernel or a sandbox refuses locks of the region's file",
        [RTMW_OBSERVER] = "this attachment is one to look on",
        [RTMW_AGAIN] = "messages that this subscriber does not get were passed over; the next call goes on behind them",
        [RTMW_OTHER_TIME] = "the monotonic clock of this process is not the region's: they are of two time namespaces",
        [RTMW_BAD_TIMES] = "a min_interval longer than the deadline, or a lease without RELIABLE",
    };
    bool known = code >= 0 && (size_t)code < sizeof sentences / sizeof *sentences;
    return known ? sentences[code] : "unknown code";
}

static const char *advice_on(int number)
{
    switch (number) {
    case EMFILE:
        return ": this process has as many open files as it may; raise the limit (ulimit -n), or close some";
    case ENFILE:
        return ": this host has as many open files as it may; raise the limit (sysctl fs.file-max)";
    case ENOMEM:
        return ": free memory, or raise the limit of this process (ulimit -v) or of its container";
    case EAGAIN:
        return ": end threads or processes, or raise the limit (ulimit -u)";
    case EACCES:
    case EPERM:
        return ": permit it in the sandbox that this process runs in (seccomp, AppArmor, SELinux)";
    default:
        return "";
    }
}

const char *rtmw_explain(int code, int number, char *text, size_t size)
{
    bool is_system = code == RTMW_SYSTEM || code == RTMW_NO_LOCKS;
    errno = number; /* for %m */
    if (is_system && number)
        snprintf(text, size, "%s: %m%s", rtmw_describe(code), advice_on(number));
    else
        snprintf(text, size, "%s", rtmw_describe(code));
    return text;
}
