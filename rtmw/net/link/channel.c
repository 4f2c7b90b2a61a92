/* Channels: sockets, with TLS or without, and the frames that they carry. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../shm/atomics.h"
#include "../../shm/crc32c.h"
#include "channel.h"

/* ---- frames ---- */

/* Frames, as they are read. They come from another host: each field is compared with what may be, before any is used. */

enum { SIZE_MOST_BITS = 40 }; /* of a message: a pool has at most 512 GiB */

/* Bytes that the body of each kind has at least and at most. */
static const struct {
    uint16_t least, most;
    bool has_route, has_band;
} kinds[] = {
    [FRAME_SAY] = {0, FRAME_MOST, false, false},
    [FRAME_RESUME] = {0, 0, false, false},
    [FRAME_ACK] = {sizeof(struct frame_ack), sizeof(struct frame_ack), true, false},
    [FRAME_CONTROL] = {8, FRAME_MOST, false, false},
    [FRAME_BEGIN] = {sizeof(struct frame_begin), FRAME_MOST, true, true},
    [FRAME_MORE] = {1, FRAME_MOST, true, true},
    [FRAME_DROP] = {sizeof(struct frame_drop), sizeof(struct frame_drop), true, true},
    [FRAME_PING] = {8, 8, false, false},
    [FRAME_PONG] = {sizeof(struct frame_pong), sizeof(struct frame_pong), false, false},
    [FRAME_BYE] = {2, 2 + FRAME_WORDS, false, false},
};

static bool is_crc_right(const uint8_t *bytes, size_t length)
{
    uint32_t sent;
    memcpy(&sent, bytes + length - FRAME_CRC, sizeof sent);
    return crc32c(0, bytes, length - FRAME_CRC) == sent;
}

static const char *fault_of(const struct frame *f, bool is_checked)
{
    const struct frame_header *h = &f->header;
    if (h->kind == 0 || h->kind >= sizeof kinds / sizeof *kinds) return "a frame of a kind that does not exist";
    if (((h->flags & FRAME_CHECKED) != 0) != is_checked)
        return "a frame with a CRC where none is due, or without one where one is";
    if (h->flags & (kinds[h->kind].has_band ? ~(FRAME_CHECKED | FRAME_BAND) : ~FRAME_CHECKED))
        return "a frame with flags that its kind does not have";
    if (h->route && !kinds[h->kind].has_route) return "a frame with a route that its kind does not have";
    if (f->size < kinds[h->kind].least || f->size > kinds[h->kind].most)
        return "a frame whose length is not one of its kind";
    return NULL;
}

enum frame_state frame_read(const uint8_t *bytes, size_t size, bool is_checked, struct frame *f, const char **words)
{
    size_t around = sizeof f->header + (is_checked ? FRAME_CRC : 0);
    if (size < sizeof f->header) return FRAME_PART;
    memcpy(&f->header, bytes, sizeof f->header);
    *words = "a frame of a length that none has";
    if (f->header.length < around || f->header.length > FRAME_MOST) return FRAME_BAD;
    f->body = bytes + sizeof f->header;
    f->size = f->header.length - around;
    *words = fault_of(f, is_checked);
    if (*words) return FRAME_BAD;
    if (size < f->header.length) return FRAME_PART;
    *words = "a frame whose CRC is not that of its bytes: it was damaged on the way";
    return !is_checked || is_crc_right(bytes, f->header.length) ? FRAME_WHOLE : FRAME_DAMAGED;
}

size_t frame_seal(uint8_t *bytes, struct frame_header header, size_t body)
{
    bool is_checked = (header.flags & FRAME_CHECKED) != 0;
    header.length = (uint16_t)(sizeof header + body + (is_checked ? FRAME_CRC : 0));
    memcpy(bytes, &header, sizeof header);
    if (!is_checked) return header.length;
    uint32_t crc = crc32c(0, bytes, sizeof header + body);
    memcpy(bytes + sizeof header + body, &crc, sizeof crc);
    return header.length;
}

bool frame_begin_read(const struct frame *f, struct frame_begin *b)
{
    static const uint8_t zeros[sizeof b->zeros];
    size_t size = sizeof b->trailer;
    memcpy(b, f->body, sizeof *b);
    const uint8_t *end = f->body + sizeof *b;
    if (!trailer_read(end, &size, &b->trailer) || size || trailer_is_checked(&b->trailer)) return false;
    size_t bytes = f->size - sizeof *b;
    return b->trailer.version != TRAILER_PACK && b->trailer.priority == (f->header.flags & FRAME_BAND) &&
           b->trailer.sequence && b->trailer.sequence <= INT64_MAX && b->hops &&
           memcmp(b->zeros, zeros, sizeof zeros) == 0 && b->size >> SIZE_MOST_BITS == 0 && bytes <= b->size &&
           (bytes || !b->size);
}

/* ---- channels ---- */

enum {
    AHEAD_PARTS = 256,  /* bytes of such a part of a second lie in the kernel in advance */
    AHEAD_LEAST = 4096, /* bytes of it */
    READ_MOST =
        4 * FRAME_MOST, /* bytes that lie in the inbox, but for what has come by a landing: they stay in the cache */
};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* 0, or errno. */
static int prepare(struct channel *c, const struct tls_context *context)
{
    if (!channel_set_options(c)) return errno;
    c->has_tls = context != NULL;
    c->is_checked = !c->has_tls;
    return context && !tls_open(&c->tls, context, c->descriptor) ? ENOMEM : 0;
}

struct channel *channel_open(int descriptor, const struct tls_context *context)
{
    struct channel *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->descriptor = descriptor;
    int failed = prepare(c, context);
    if (failed) {
        free(c);
        errno = failed;
        return NULL;
    }
    return c;
}

void channel_close(struct channel *c)
{
    if (!c) return;
    channel_forget(c);
    if (c->has_tls) tls_close(&c->tls);
    close(c->descriptor);
    free(c);
}

static enum channel_state fail(struct channel *c)
{
    const char *reason = c->fault.reason[0] ? c->fault.reason : errno ? strerror(errno) : "closed without a farewell";
    snprintf(c->words, sizeof c->words, "%s%s", c->has_tls && c->fault.reason[0] ? "TLS: " : "", reason);
    return CHANNEL_FAILED;
}

static enum channel_state state_of(enum tls_state state)
{
    static const enum channel_state states[] = {[TLS_DONE] = CHANNEL_DONE,
                                                [TLS_WANTS_READ] = CHANNEL_READ,
                                                [TLS_WANTS_WRITE] = CHANNEL_WRITE,
                                                [TLS_CLOSED] = CHANNEL_CLOSED,
                                                [TLS_FAILED] = CHANNEL_FAILED};
    return states[state];
}

enum channel_state channel_handshake(struct channel *c)
{
    if (!c->has_tls) return CHANNEL_DONE;
    enum channel_state state = state_of(tls_handshake(&c->tls, &c->fault));
    return state == CHANNEL_FAILED ? fail(c) : state;
}

/* ---- reading ---- */

static enum channel_state read_plain(struct channel *c, struct iovec *part, uint32_t parts, size_t *got)
{
    struct msghdr message = {.msg_iov = part, .msg_iovlen = parts};
    ssize_t count;
    do count = recvmsg(c->descriptor, &message, 0);
    while (count < 0 && errno == EINTR);
    *got = count > 0 ? (size_t)count : 0;
    if (count > 0) return CHANNEL_DONE;
    if (count == 0) return CHANNEL_CLOSED;
    return errno == EAGAIN ? CHANNEL_READ : fail(c);
}

static enum channel_state read_tls(struct channel *c, const struct iovec *part, uint32_t parts, size_t *got)
{
    enum channel_state state = state_of(tls_read(&c->tls, part, parts, got, &c->fault));
    return state == CHANNEL_FAILED ? fail(c) : state;
}

static enum channel_state read_parts(struct channel *c, struct iovec *part, uint32_t parts, size_t *got)
{
    enum channel_state state = c->has_tls ? read_tls(c, part, parts, got) : read_plain(c, part, parts, got);
    count_up(&c->read, *got);
    return state;
}

/* Bytes that lack of the frame with which the inbox begins. */
static size_t lacking(const struct channel *c)
{
    struct frame_header h = {.length = sizeof h};
    size_t left = c->end - c->first;
    if (left >= sizeof h) memcpy(&h, c->in + c->first, sizeof h);
    return h.length > left ? h.length - left : sizeof h;
}

/* Under TLS a frame: what comes behind the first one of a large message has its place then. */
static size_t read_at_once(const struct channel *c) { return c->has_tls ? FRAME_MOST : READ_MOST; }

enum channel_state channel_read(struct channel *c, bool is_alone)
{
    size_t got;
    if (c->first && c->end + FRAME_MOST > READ_MOST) {
        memmove(c->in, c->in + c->first, c->end - c->first);
        c->end -= c->first;
        c->first = 0;
    }
    if (c->end >= READ_MOST) return CHANNEL_READ; /* nobody takes what is there */
    struct iovec part = {c->in + c->end, least(READ_MOST - c->end, is_alone ? lacking(c) : read_at_once(c))};
    enum channel_state state = read_parts(c, &part, 1, &got);
    c->end += got;
    return state;
}

enum channel_state channel_land(struct channel *c, struct landing *x)
{
    struct iovec part[LANDING_PARTS];
    size_t got;
    c->landed = (struct frame){x->header, x->to, x->size};
    enum channel_state state = read_parts(c, part, landing_parts(x, part), &got);
    c->landed_count = landing_take(x, got, c->in, &c->end);
    return state;
}

static void next_landed(struct channel *c, struct frame *f)
{
    *f = c->landed;
    c->landed.body += f->size;
    c->landed_count--;
}

enum frame_state channel_next(struct channel *c, struct frame *f)
{
    const char *words;
    if (c->landed_count) return next_landed(c, f), FRAME_WHOLE;
    enum frame_state state = frame_read(c->in + c->first, c->end - c->first, c->is_checked, f, &words);
    if (state == FRAME_WHOLE) c->first += f->header.length;
    if (state == FRAME_BAD || state == FRAME_DAMAGED) snprintf(c->words, sizeof c->words, "%s", words);
    if (c->first == c->end) c->first = c->end = 0; /* the bytes of the frame stay where they are until the next read */
    return state;
}

bool channel_has_lines(const struct channel *c)
{
    struct frame_header h;
    if (c->end - c->first < sizeof h) return false;
    memcpy(&h, c->in + c->first, sizeof h);
    return h.kind > FRAME_SAY && h.kind <= FRAME_BYE;
}

/* ---- writing ---- */

bool channel_is_slow(const struct channel *c) { return c->rate && c->rate / AHEAD_PARTS < OUTBOX_BYTES; }

size_t channel_ahead(const struct channel *c)
{
    uint64_t ahead = c->rate / AHEAD_PARTS;
    return ahead > AHEAD_LEAST ? ahead : AHEAD_LEAST;
}

size_t channel_room(const struct channel *c)
{
    size_t most = c->is_swift ? OUTBOX_SWIFT : OUTBOX_BYTES;
    if (c->out.count + 4 > OUTBOX_PARTS || c->out.total >= most) return 0;
    return least(FRAME_MOST, least(most - c->out.total, OUTBOX_BYTES - c->out.used));
}

static void add(struct outbox *o, const void *bytes, size_t size, struct kept *kept)
{
    if (!size) return;
    struct iovec *last = o->count ? &o->part[o->count - 1] : NULL;
    o->total += size;
    if (!kept && last && !o->kept[o->count - 1] && (const uint8_t *)last->iov_base + last->iov_len == bytes) {
        last->iov_len += size;
        return;
    }
    o->part[o->count] = (struct iovec){(void *)(uintptr_t)bytes, size};
    o->kept[o->count++] = kept;
    if (kept) kept_hold(kept);
}

static void copy(struct outbox *o, const void *bytes, size_t size)
{
    if (size) memcpy(o->bytes + o->used, bytes, size);
    add(o, o->bytes + o->used, size, NULL);
    o->used += size;
}

void channel_put(struct channel *c, struct frame_header header, struct iovec head, struct iovec payload,
                 struct kept *kept)
{
    struct outbox *o = &c->out;
    uint8_t *begin = o->bytes + o->used;
    bool is_copied = !kept || payload.iov_len <= COPIED_MOST;
    if (c->is_checked) header.flags |= FRAME_CHECKED;
    header.length = (uint16_t)(channel_around(c) + head.iov_len + payload.iov_len);
    copy(o, &header, sizeof header);
    if (head.iov_len) copy(o, head.iov_base, head.iov_len);
    uint32_t crc = c->is_checked ? crc32c(0, begin, sizeof header + head.iov_len) : 0;
    if (is_copied)
        copy(o, payload.iov_base, payload.iov_len);
    else
        add(o, payload.iov_base, payload.iov_len, kept);
    if (!c->is_checked) return;
    crc = crc32c(crc, payload.iov_base, payload.iov_len);
    copy(o, &crc, sizeof crc);
}

static void let_go(struct outbox *o)
{
    if (o->kept[o->first]) kept_let_go(o->kept[o->first]);
    o->kept[o->first++] = NULL;
}

void channel_forget(struct channel *c)
{
    struct outbox *o = &c->out;
    while (o->first < o->count) let_go(o);
    o->first = o->count = 0;
    o->used = o->total = 0;
}

static void pass(struct outbox *o, size_t written)
{
    while (o->first < o->count && written >= o->part[o->first].iov_len) {
        written -= o->part[o->first].iov_len;
        let_go(o);
    }
    if (!written) return;
    struct iovec *part = &o->part[o->first];
    part->iov_base = (uint8_t *)part->iov_base + written;
    part->iov_len -= written;
}

static enum channel_state write_plain(struct channel *c, size_t *written)
{
    struct outbox *o = &c->out;
    struct msghdr message = {.msg_iov = o->part + o->first, .msg_iovlen = o->count - o->first};
    ssize_t count;
    do count = sendmsg(c->descriptor, &message, MSG_NOSIGNAL | (c->is_followed ? MSG_MORE : 0));
    while (count < 0 && errno == EINTR);
    *written = count > 0 ? (size_t)count : 0;
    if (count >= 0) return CHANNEL_DONE;
    return errno == EAGAIN ? CHANNEL_WRITE : CHANNEL_FAILED;
}

static enum channel_state write_tls(struct channel *c, size_t *written)
{
    const struct outbox *o = &c->out;
    struct tls_fault fault;
    return state_of(tls_write(&c->tls, o->part + o->first, o->count - o->first, written, &fault));
}

static enum channel_state flush_tls(struct channel *c)
{
    struct tls_fault fault;
    enum channel_state state = state_of(tls_flush(&c->tls, c->is_followed, &fault));
    c->is_unflushed = state != CHANNEL_DONE;
    return state;
}

enum channel_state channel_write(struct channel *c)
{
    uint64_t all = c->written + c->out.total;
    while (c->out.first < c->out.count) {
        size_t written = 0;
        enum channel_state state = c->has_tls ? write_tls(c, &written) : write_plain(c, &written);
        pass(&c->out, written);
        c->written += written;
        if (state != CHANNEL_DONE) return state;
    }
    if (c->has_tls) {
        enum channel_state state = flush_tls(c);
        if (state != CHANNEL_DONE) return state;
    }
    c->is_swift = c->written == all;
    channel_forget(c);
    return CHANNEL_DONE;
}

/* ---- landing ---- */

/* Frames that are expected: where they are read to, and whether they have come. */

static size_t crc_size(const struct landing *x) { return x->header.flags & FRAME_CHECKED ? FRAME_CRC : 0; }

void landing_expect(struct landing *x, struct frame_header header, uint8_t *to, uint64_t left)
{
    x->header = header;
    x->header.length = FRAME_MOST;
    x->size = FRAME_MOST - sizeof header - crc_size(x);
    x->frames = left / x->size < LANDING_FRAMES ? (uint32_t)(left / x->size) : LANDING_FRAMES;
    x->to = to;
}

/* ---- parts ---- */

struct parts {
    struct iovec *part;
    uint32_t count;
    size_t passed; /* bytes to be passed over yet */
};

static void add_part(struct parts *p, uint8_t *at, size_t size)
{
    size_t passed = size < p->passed ? size : p->passed;
    p->passed -= passed;
    if (size > passed) p->part[p->count++] = (struct iovec){at + passed, size - passed};
}

/* Of all frames, but for the first `passed` bytes. */
static uint32_t list(struct landing *x, size_t passed, struct iovec part[LANDING_PARTS])
{
    struct parts p = {.part = part, .passed = passed};
    size_t crc = crc_size(x);
    add_part(&p, x->edge[0].header, sizeof x->header);
    for (uint32_t n = 1; n <= x->frames; n++) {
        add_part(&p, x->to + (n - 1) * x->size, x->size);
        add_part(&p, (uint8_t *)&x->edge[n] + FRAME_CRC - crc, n < x->frames ? crc + sizeof x->header : crc);
    }
    return p.count;
}

uint32_t landing_parts(struct landing *x, struct iovec part[LANDING_PARTS]) { return list(x, x->have, part); }

/* ---- what has come ---- */

static bool is_expected(const struct landing *x, uint32_t frame)
{
    return memcmp(x->edge[frame].header, &x->header, sizeof x->header) == 0;
}

/* All bytes of it have come. */
static bool is_right(const struct landing *x, uint32_t frame)
{
    if (!is_expected(x, frame)) return false;
    if (!crc_size(x)) return true;
    uint32_t crc = crc32c(0, &x->header, sizeof x->header);
    crc = crc32c(crc, x->to + frame * x->size, x->size);
    return memcmp(&crc, x->edge[frame + 1].crc, sizeof crc) == 0;
}

static void copy_from(struct landing *x, uint32_t frame, size_t size, uint8_t *loose)
{
    struct iovec part[LANDING_PARTS];
    list(x, (size_t)frame * x->header.length, part);
    for (const struct iovec *p = part; size; p++) {
        size_t some = p->iov_len < size ? p->iov_len : size;
        memcpy(loose, p->iov_base, some);
        loose += some;
        size -= some;
    }
}

static void pass_frames(struct landing *x, uint32_t frames)
{
    x->edge[0] = x->edge[frames];
    x->edge[1] = x->edge[frames + 1];
    x->to += frames * x->size;
    x->frames -= frames;
}

uint32_t landing_take(struct landing *x, size_t got, uint8_t *loose, size_t *size)
{
    size_t left = x->have + got, length = x->header.length;
    uint32_t whole = 0;
    for (; left >= length && is_right(x, whole); left -= length) whole++;
    bool is_part = left < sizeof x->header || (left < length && is_expected(x, whole));
    *size = is_part ? 0 : left;
    copy_from(x, whole, *size, loose);
    x->have = is_part ? left : 0;
    if (whole) pass_frames(x, whole);
    return whole;
}

void landing_move(struct landing *x)
{
    size_t some = x->have > sizeof x->header ? x->have - sizeof x->header : 0;
    memcpy(x->spare, x->to, some < x->size ? some : x->size);
    x->to = x->spare;
    x->frames = 1;
}

/* ---- options ---- */

/* What the kernel is asked to do for a connection. */

/* Of Linux 6.15; the headers of a C library may be older. */
#ifndef TCP_RTO_MIN_US
#define TCP_RTO_MIN_US 45
#endif
#ifndef TCP_DELACK_MAX_US
#define TCP_DELACK_MAX_US 46
#endif

enum {
    UNSENT_MOST = 16 << 10, /* bytes that the kernel has and has not sent, before it takes no more */
    IDLE_S = 5,             /* of a connection, before the kernel probes whether the peer is there */
    UNACKNOWLEDGED_MS = 20000,
    RESENT_US = 20000,      /* beyond a round trip, after which what was not acknowledged is sent again */
    ACKNOWLEDGED_US = 8000, /* after which what has come is acknowledged */
    FAR_US = 5000,          /* of a round trip, from which on a way is far */
};

static void set(int descriptor, int level, int option, int value)
{
    setsockopt(descriptor, level, option, &value, sizeof value); /* one that a kernel does not have costs speed alone */
}

static bool is_within_host(int descriptor)
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof at;
    if (getpeername(descriptor, (void *)&at, &size) < 0) return true;
    if (at.ss_family == AF_INET) return ntohl(((struct sockaddr_in *)&at)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return at.ss_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&at)->sin6_addr);
}

static void set_congestion(int descriptor, const char *name)
{
    setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

static bool is_far(int descriptor)
{
    struct tcp_info i;
    socklen_t size = sizeof i;
    return getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &i, &size) == 0 && i.tcpi_rtt >= FAR_US;
}

/* On loopback nothing queues, and an algorithm that paces (bbr) has a timer for each packet. Reno has none; each kernel has
 * it, and each process may take it. On a far way algorithms that slow down at each packet that is lost leave most of the way
 * empty where some are always lost. Bbr does not. Where kernel or administrator do not let one be taken, that of the route or
 * the host stays. */
static void choose_congestion(const struct channel *c)
{
    if (c->is_within_host)
        set_congestion(c->descriptor, "reno");
    else if (c->is_far)
        set_congestion(c->descriptor, "bbr");
}

void channel_mark(struct channel *c, int code_point)
{
    if (c->is_unix) return;
    set(c->descriptor, IPPROTO_IP, IP_TOS, code_point << 2); /* also of IPv4 at a socket of IPv6 */
    set(c->descriptor, IPPROTO_IPV6, IPV6_TCLASS, code_point << 2);
}

/* All but the first of the options are those of TCP. */
bool channel_set_options(struct channel *c)
{
    int domain, descriptor = c->descriptor, flags = fcntl(descriptor, F_GETFL);
    socklen_t size = sizeof domain;
    if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0) return false;
    if (getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0) return false;
    c->is_unix = domain == AF_UNIX;
    c->is_within_host = is_within_host(descriptor);
    if (domain != AF_INET && domain != AF_INET6) return true;
    c->is_far = !c->is_within_host && is_far(descriptor);
    set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
    set(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_MOST);
    set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
    set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, IDLE_S);
    set(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS);
    set(descriptor, IPPROTO_TCP, TCP_RTO_MIN_US, RESENT_US);
    set(descriptor, IPPROTO_TCP, TCP_DELACK_MAX_US, ACKNOWLEDGED_US);
    choose_congestion(c);
    return true;
}
