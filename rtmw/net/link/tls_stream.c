/* What follows the handshake: records of TLS 1.3, to and from a socket. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "../../shm/atomics.h"
#include "tls.h"

enum {
    UPDATE_ROOM = RECORD_AROUND + 5,
    BARE_MOST = 32,  /* records without bytes for the line, in a row */
    KEY_UPDATE = 24, /* a message of the handshake */
    WARNING = 1,     /* of alerts: their levels, and what they say */
    FATAL = 2,
    CLOSE_NOTIFY = 0,
    UNEXPECTED_MESSAGE = 10,
    BAD_RECORD_MAC = 20,
    RECORD_OVERFLOW = 22,
    ILLEGAL_PARAMETER = 47,
    DECODE_ERROR = 50,
    INTERNAL_ERROR = 80,
    USER_CANCELED = 90,
};

struct space {
    struct record_parts at;
    size_t left, filled;
};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t size_of(const struct iovec *part, uint32_t parts)
{
    size_t size = 0;
    for (uint32_t n = 0; n < parts; n++) size += part[n].iov_len;
    return size;
}

static enum tls_state fail(struct tls *t, uint8_t alert, const char *reason, struct tls_fault *fault)
{
    *fault = (struct tls_fault){0};
    snprintf(fault->reason, sizeof fault->reason, "%s", reason);
    errno = 0;
    t->alert = alert;
    return t->ended = TLS_FAILED;
}

/* ---- records that are not the line's ---- */

/* What OpenSSL calls an alert is a reason of its own, by a number. */
static enum tls_state hear_alert(struct tls *t, const uint8_t *body, size_t size, struct tls_fault *fault)
{
    if (size != 2) return fail(t, UNEXPECTED_MESSAGE, "BAD_ALERT", fault);
    if (body[1] == USER_CANCELED) return TLS_DONE; /* a CLOSE_NOTIFY follows */
    if (body[1] == CLOSE_NOTIFY) return t->ended = TLS_CLOSED;
    fail(t, 0, "", fault);
    tls_say_reason(t->library, (unsigned long)ERR_LIB_SSL << ERR_LIB_SHIFT | (SSL_AD_REASON_OFFSET + body[1]), fault);
    return TLS_FAILED;
}

static enum tls_state hear_key_update(struct tls *t, const uint8_t *body, size_t size, struct tls_fault *fault)
{
    static const uint8_t length[] = {0, 0, 1};
    enum { HEAD = 1 + sizeof length };
    if (size < HEAD || body[0] != KEY_UPDATE) return fail(t, UNEXPECTED_MESSAGE, "UNEXPECTED_MESSAGE", fault);
    if (memcmp(body + 1, length, sizeof length) != 0) return fail(t, DECODE_ERROR, "BAD_KEY_UPDATE", fault);
    if (size != HEAD + 1) return fail(t, UNEXPECTED_MESSAGE, "NOT_ON_RECORD_BOUNDARY", fault);
    if (body[HEAD] > 1) return fail(t, ILLEGAL_PARAMETER, "BAD_KEY_UPDATE", fault);
    if (!record_keys_update(&t->in)) return fail(t, INTERNAL_ERROR, "INTERNAL_ERROR", fault);
    if (body[HEAD]) store_relaxed(&t->must_update, 1u);
    return TLS_DONE;
}

/* A record that lies opened where it came, with its type and padding behind its bytes. */
static enum tls_state hear(struct tls *t, uint8_t *body, size_t size, struct tls_fault *fault)
{
    while (size && !body[size - 1]) size--;
    uint8_t type = size ? body[size - 1] : 0;
    if (type == RECORD_ALERT) return hear_alert(t, body, size - 1, fault);
    if (type == RECORD_HANDSHAKE) return hear_key_update(t, body, size - 1, fault);
    if (type != RECORD_DATA) return fail(t, UNEXPECTED_MESSAGE, "UNEXPECTED_MESSAGE", fault);
    t->plain = (size_t)(body - t->received);
    t->plain_end = t->plain + size - 1;
    return TLS_DONE;
}

/* ---- reading ---- */

/* From the parts to a piece of memory, or the other way. */
static void copy(struct record_parts *p, uint8_t *memory, size_t size, bool is_to_parts)
{
    for (size_t some; size; size -= some, memory += some) {
        uint8_t *there = (uint8_t *)p->part->iov_base + p->passed;
        some = least(p->part->iov_len - p->passed, size);
        memcpy(is_to_parts ? there : memory, is_to_parts ? memory : there, some);
        p->passed += some;
        if (p->passed == p->part->iov_len) *p = (struct record_parts){p->part + 1, 0};
    }
}

static void fill(struct space *to, size_t size)
{
    to->filled += size;
    to->left -= size;
}

static void hand_out(struct tls *t, struct space *to)
{
    size_t size = least(t->plain_end - t->plain, to->left);
    copy(&to->at, t->received + t->plain, size, true);
    t->plain += size;
    fill(to, size);
}

/* Into the place where its bytes are wanted, if they have room there and it is one of the line's; else where it lies. */
static enum tls_state open_record(struct tls *t, size_t length, struct space *to, struct tls_fault *fault)
{
    uint8_t *record = t->received + t->first, *body = record + RECORD_HEADER;
    size_t size = length - RECORD_AROUND;
    struct iovec own = {body, size};
    struct record_parts here = {&own, 0}, before = to->at;
    bool has_room = size <= to->left;
    if (!record_open(&t->in, record, has_room ? &to->at : &here, &body[size]))
        return fail(t, BAD_RECORD_MAC, "DECRYPTION_FAILED_OR_BAD_RECORD_MAC", fault);
    t->first += length;
    if (has_room && body[size] == RECORD_DATA) return fill(to, size), TLS_DONE;
    to->at = before;
    if (has_room) copy(&before, body, size, false);
    return hear(t, body, size + 1, fault);
}

/* TLS 1.3 has no record with this header here. */
static enum tls_state refuse(struct tls *t, const uint8_t *header, struct tls_fault *fault)
{
    switch (record_check(header)) {
    case RECORD_LONG:
        return fail(t, RECORD_OVERFLOW, "ENCRYPTED_LENGTH_TOO_LONG", fault);
    case RECORD_SHORT:
        return fail(t, BAD_RECORD_MAC, "LENGTH_TOO_SHORT", fault);
    default:
        return fail(t, UNEXPECTED_MESSAGE, "BAD_RECORD_TYPE", fault);
    }
}

/* All records that have come whole, as far as they have room. */
static enum tls_state open_all(struct tls *t, struct space *to, struct tls_fault *fault)
{
    enum tls_state state = TLS_DONE;
    hand_out(t, to);
    while (to->left && state == TLS_DONE && t->end - t->first >= RECORD_HEADER) {
        size_t length = record_length(t->received + t->first);
        if (!length) return refuse(t, t->received + t->first, fault);
        if (t->end - t->first < length) break;
        size_t filled = to->filled;
        state = open_record(t, length, to, fault);
        hand_out(t, to);
        t->bare = to->filled > filled ? 0 : t->bare + 1;
        if (state == TLS_DONE && t->bare > BARE_MOST) return fail(t, UNEXPECTED_MESSAGE, "RECORD_TOO_SMALL", fault);
    }
    return state;
}

static enum tls_state receive(struct tls *t, struct tls_fault *fault)
{
    ssize_t count;
    memmove(t->received, t->received + t->first, t->end - t->first);
    t->end -= t->first;
    t->first = 0;
    do count = recv(t->descriptor, t->received + t->end, sizeof t->received - t->end, 0);
    while (count < 0 && errno == EINTR);
    if (count < 0 && errno == EAGAIN) return TLS_WANTS_READ;
    if (count == 0) return fail(t, 0, "UNEXPECTED_EOF_WHILE_READING", fault);
    if (count < 0) return t->ended = TLS_FAILED; /* errno says why */
    t->end += (size_t)count;
    return TLS_DONE;
}

enum tls_state tls_read(struct tls *t, const struct iovec *part, uint32_t parts, size_t *got, struct tls_fault *fault)
{
    struct space to = {.at = {part, 0}, .left = size_of(part, parts)};
    enum tls_state state = t->out.context ? t->ended : tls_handshake(t, fault);
    while (state == TLS_DONE && !to.filled) {
        state = open_all(t, &to, fault);
        if (state == TLS_DONE && !to.filled) state = receive(t, fault);
    }
    *got = to.filled;
    return to.filled ? TLS_DONE : state;
}

/* ---- writing ---- */

static bool seal(struct tls *t, enum record_type type, struct record_parts parts, size_t size)
{
    size_t length = record_seal(&t->out, type, &parts, size, t->sealed + t->sealed_end);
    t->sealed_end += length;
    return length;
}

static bool has_room(const struct tls *t, size_t size)
{
    return sizeof t->sealed - t->sealed_end >= size + RECORD_AROUND;
}

/* New keys, before these have sealed too much, or because the peer has asked for them. */
static bool update(struct tls *t)
{
    bool is_asked = load_relaxed(&t->must_update) && exchange(&t->must_update, 0u);
    if (!is_asked && t->out.number < TLS_KEY_RECORDS) return true;
    uint8_t message[] = {KEY_UPDATE, 0, 0, 1, !is_asked};
    struct iovec part = {message, sizeof message};
    return seal(t, RECORD_HANDSHAKE, (struct record_parts){&part, 0}, sizeof message) && record_keys_update(&t->out);
}

enum tls_state tls_write(struct tls *t, const struct iovec *part, uint32_t parts, size_t *written,
                         struct tls_fault *fault)
{
    size_t size = least(size_of(part, parts), RECORD_MOST);
    enum tls_state state = t->out.context ? TLS_DONE : tls_handshake(t, fault);
    *written = 0;
    if (state == TLS_DONE && !has_room(t, size + UPDATE_ROOM)) state = tls_flush(t, true, fault);
    if (state != TLS_DONE) return state;
    *fault = (struct tls_fault){.reason = "INTERNAL_ERROR"};
    if (!update(t) || !seal(t, RECORD_DATA, (struct record_parts){part, 0}, size)) return TLS_FAILED;
    *written = size;
    return TLS_DONE;
}

enum tls_state tls_flush(struct tls *t, bool is_followed, struct tls_fault *fault)
{
    *fault = (struct tls_fault){0};
    while (t->unsent < t->sealed_end) {
        ssize_t count = send(t->descriptor, t->sealed + t->unsent, t->sealed_end - t->unsent,
                             MSG_NOSIGNAL | (is_followed ? MSG_MORE : 0));
        if (count < 0 && errno != EINTR) return errno == EAGAIN ? TLS_WANTS_WRITE : TLS_FAILED;
        if (count > 0) t->unsent += (size_t)count;
    }
    t->unsent = t->sealed_end = 0;
    return TLS_DONE;
}

void tls_say_alert(struct tls *t)
{
    uint8_t alert[] = {t->alert ? FATAL : WARNING, t->alert};
    struct iovec part = {alert, sizeof alert};
    struct tls_fault fault;
    bool is_due = t->alert || t->ended != TLS_FAILED; /* else the peer has said one, or is gone */
    if (is_due && t->unsent == t->sealed_end && seal(t, RECORD_ALERT, (struct record_parts){&part, 0}, sizeof alert))
        tls_flush(t, false, &fault);
}
