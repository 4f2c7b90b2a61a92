/* Fuzzes what comes before a peer has said who it is: the TLS handshake, and the hello behind it.
 *
 *   link_greet SEED ROUNDS PEM DER STRANGER      key and certificate, the authority, and a key that another one has signed
 *
 * Two ends of a connection shake hands and greet as _line.c does, on two sockets, between which this program carries
 * the bytes: whole, or with some of them changed, left out, doubled or made up, or with an end. Some have keys that they
 * must change at once. OpenSSL is the host's, found at run time. What must hold: (1) no byte is touched that is not there (the
 * sanitizers); (2) where nothing was changed each end hears what the other one said, and without TLS so does who hears at
 * all; (3) under TLS nothing is heard that was not said, and nothing of a stranger; (4) a frame that only a line takes is not
 * heard; (5) nobody waits for bytes that have come; (6) no key seals more records than it may.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link_stage.h"

enum { FILE_MOST = 1 << 14, HELLO_MOST = 1500, TURNS = 40, CARRIED_MOST = 1 << 15, CHANGES_MOST = 3, SCOPE = 3000 };

struct end {
    struct channel *channel;
    int wire; /* the other side of its socket */
    bool is_up, has_failed, has_heard;
    uint8_t hello[HELLO_MOST];
    size_t size;
    uint8_t kind;     /* of the frame that it says */
    uint64_t carried; /* bytes that it has sent */
};

static struct tls_context contexts[3]; /* of who dials, who listens, and a stranger who dials */
static struct end ends[2];
static bool has_tls, is_stranger, is_changed;
static uint64_t places[2][CHANGES_MOST]; /* bytes of each end at which something is changed */
static uint64_t age; /* records that both ends have sealed under their first keys when they say hello */
static uint64_t state, greeted, refused;

static uint32_t below(uint32_t count)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % count;
}

/* ---- the two ends ---- */

static void open_end(int n)
{
    int pair[2];
    struct end *e = &ends[n];
    *e = (struct end){.size = 1 + below(HELLO_MOST), .kind = below(10) ? FRAME_SAY : FRAME_BYE};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "no sockets");
    fcntl(pair[1], F_SETFL, O_NONBLOCK);
    e->channel = channel_open(pair[0], has_tls ? &contexts[!n && is_stranger ? 2 : n] : NULL);
    e->wire = pair[1];
    for (size_t at = 0; at < e->size; at++) e->hello[at] = (uint8_t)below(256);
}

static void say_hello(struct end *e)
{
    channel_put(e->channel, (struct frame_header){.kind = e->kind}, (struct iovec){0},
                (struct iovec){e->hello, e->size}, NULL);
}

/* As frames_of() in _line.c: all that the peer may say before it has said who it is. */
static void hear(struct end *e, const struct end *from)
{
    struct frame f;
    enum frame_state got;
    while (!e->has_failed && !channel_has_lines(e->channel) && (got = channel_next(e->channel, &f)) != FRAME_PART) {
        if (got != FRAME_WHOLE) {
            e->has_failed = true;
            break;
        }
        REQUIRE(f.header.kind == FRAME_SAY, "a frame that only a line takes is heard: %d", f.header.kind);
        REQUIRE(f.size == from->size && !memcmp(f.body, from->hello, f.size), "what was not said is heard");
        REQUIRE(!e->has_heard, "what was said once is heard twice");
        e->has_heard = true;
    }
    if (channel_has_lines(e->channel)) e->has_failed = true;
}

static void turn(struct end *e, const struct end *from)
{
    if (e->has_failed) return;
    enum channel_state got = e->is_up ? channel_write(e->channel) : channel_handshake(e->channel);
    if (got == CHANNEL_DONE && !e->is_up) {
        e->is_up = true;
        if (has_tls) REQUIRE(tls_peer(&e->channel->tls, NULL) > 0, "a peer without a certificate");
        e->channel->tls.in.number = e->channel->tls.out.number = age;
        say_hello(e);
        got = channel_write(e->channel);
        REQUIRE(e->channel->tls.out.number <= TLS_KEY_RECORDS, "more is sealed under a key than it may");
    }
    if (e->is_up && got <= CHANNEL_WRITE) {
        while ((got = channel_read(e->channel, false)) == CHANNEL_DONE) hear(e, from);
    }
    if (got >= CHANNEL_CLOSED) e->has_failed = true;
    REQUIRE(memchr(e->channel->words, 0, sizeof e->channel->words), "words without an end");
    REQUIRE(memchr(e->channel->fault.verify_words, 0, TLS_WORDS), "words without an end");
}

/* ---- the wire ---- */

static size_t change(uint8_t *bytes, size_t size, size_t at)
{
    static const uint8_t likely[] = {0, 1, 2, 3, 0x14, 0x15, 0x16, 0x17, 0x7F, 0x80, 0xFF};
    size_t count = 1 + below(64), left = size - at;
    is_changed = true;
    switch (below(6)) {
    case 0:
        bytes[at] ^= (uint8_t)(1u << below(8));
        return size;
    case 1:
        bytes[at] = (uint8_t)(likely[below(sizeof likely)] ^ (bytes[at] == likely[0] ? 0x55 : 0));
        return size;
    case 2: /* left out */
        if (count > left) count = left;
        memmove(bytes + at, bytes + at + count, left - count);
        return size - count;
    case 3: /* come twice */
        if (count > left) count = left;
        memmove(bytes + at + count, bytes + at, left);
        return size + count;
    case 4: /* made up */
        for (size_t n = at; n < size; n++) bytes[n] = (uint8_t)below(256);
        return size;
    default: /* and there it ends */
        return at;
    }
}

static void carry(struct end *from, struct end *to)
{
    static uint8_t bytes[2 * CARRIED_MOST];
    ssize_t got = read(from->wire, bytes, CARRIED_MOST);
    if (got <= 0) return;
    size_t size = (size_t)got;
    for (int n = 0; n < CHANGES_MOST; n++) {
        uint64_t place = places[from - ends][n];
        if (place >= from->carried && place < from->carried + (uint64_t)got && place - from->carried < size)
            size = change(bytes, size, (size_t)(place - from->carried));
    }
    from->carried += (uint64_t)got;
    for (size_t at = 0, part; at < size; at += part) { /* as it comes from a network */
        part = 1 + below((uint32_t)(size - at));
        if (write(to->wire, bytes + at, part) < 0) return;
        turn(to, from);
    }
}

/* ---- a round ---- */

static void begin(void)
{
    has_tls = below(4) != 0;
    is_stranger = has_tls && below(8) == 0;
    is_changed = false;
    age = below(4) ? 0 : TLS_KEY_RECORDS - below(2);
    for (int n = 0; n < 2; n++)
        for (int c = 0; c < CHANGES_MOST; c++) places[n][c] = below(3) ? UINT64_MAX : below(SCOPE);
    for (int n = 0; n < 2; n++) open_end(n);
}

static void judge(void)
{
    bool is_whole = ends[0].has_heard && ends[1].has_heard;
    bool are_hellos = ends[0].kind == FRAME_SAY && ends[1].kind == FRAME_SAY;
    REQUIRE(!is_stranger || !ends[1].has_heard, "a stranger is heard");
    REQUIRE(is_changed || is_stranger || !are_hellos || is_whole, "what was not changed is not heard: %s, %s",
            ends[0].channel->words, ends[1].channel->words);
    greeted += is_whole;
    refused += !is_whole;
}

static void play(void)
{
    begin();
    for (int n = 0; n < TURNS; n++) {
        turn(&ends[n % 2], &ends[!(n % 2)]);
        carry(&ends[n % 2], &ends[!(n % 2)]);
    }
    judge();
    for (int n = 0; n < 2; n++) {
        channel_close(ends[n].channel);
        close(ends[n].wire);
    }
}

static struct tls_pem contents(const char *path)
{
    static uint8_t bytes[3][FILE_MOST];
    static int count;
    FILE *file = fopen(path, "rb");
    REQUIRE(file, "%s cannot be read", path);
    struct tls_pem found = {bytes[count], fread(bytes[count], 1, FILE_MOST, file)};
    count++;
    fclose(file);
    return found;
}

static void open_contexts(char **paths)
{
    char words[256];
    struct tls_fault fault;
    const struct openssl *library = openssl_find("", words, sizeof words);
    REQUIRE(library, "%s", words);
    struct tls_pem keys = contents(paths[0]), authority = contents(paths[1]), stranger = contents(paths[2]);
    for (int n = 0; n < 3; n++) {
        contexts[n].is_server = n == 1;
        REQUIRE(tls_context_open(&contexts[n], library, n == 2 ? stranger : keys, &fault), "%s", fault.reason);
        REQUIRE(tls_context_trust(&contexts[n], authority.bytes, authority.size), "no certificate");
    }
}

int main(int count, char **arguments)
{
    if (count != 6) return fprintf(stderr, "usage: %s SEED ROUNDS PEM DER STRANGER\n", *arguments), 2;
    signal(SIGPIPE, SIG_IGN); /* as in Python; OpenSSL writes without MSG_NOSIGNAL */
    state = strtoull(arguments[1], NULL, 10);
    open_contexts(arguments + 3);
    for (uint64_t rounds = strtoull(arguments[2], NULL, 10); rounds; rounds--) play();
    for (int n = 0; n < 3; n++) tls_context_close(&contexts[n]);
    REQUIRE(greeted && refused, "%llu rounds were greetings, %llu were not", (unsigned long long)greeted,
            (unsigned long long)refused);
    return printf("%llu greetings, %llu refused\n", (unsigned long long)greeted, (unsigned long long)refused) < 0;
}
