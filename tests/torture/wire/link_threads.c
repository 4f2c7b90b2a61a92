/* Two lines with all their threads, on a real bus, over loopback, for ThreadSanitizer: several routes both ways, connections
 * that are cut and come again, twins beside them, routes that end and are opened again with other ceilings, controls, and looks at counters.
 *
 *   link_threads SECONDS [PEM DER]      PEM: key and certificate of both ends; DER: the authority. Without: no TLS
 *
 * Both ends are on one domain: what is taken from "out/N" is published on "in/N". What must hold: each message of a RELIABLE
 * route that stays open comes once, in order, as it was sent; controls come in order; in the end the books balance.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../../rtmw/net/link/link.h"

/* Of tests/native/native.h, which cannot be included: the core's own headers have names that those of lines have, too. */
__attribute__((noreturn, format(printf, 4, 5))) void fail(const char *file, int line, const char *what,
                                                          const char *format, ...);
uint32_t domain_make(uint64_t pool_bytes, uint32_t seconds);
struct rtmw_region *attach(uint32_t domain);
rtmw_publisher *publish_on(struct rtmw_region *, const char *topic, rtmw_reliability, uint8_t priority);
rtmw_subscriber *subscribe_to(struct rtmw_region *, const char *topic, rtmw_subscriber_qos);
uint32_t random_below(uint64_t *state, uint32_t limit);
void books_must_balance(struct rtmw_region *);

#define CHECK(condition, ...)                                                    \
    do {                                                                         \
        if (!(condition)) fail(__FILE__, __LINE__, #condition, " " __VA_ARGS__); \
    } while (0)

enum { POOL = 8 << 20, STEADY = 2, TOPICS_USED = 3, WINDOW = 1 << 18, FILE_MOST = 1 << 16, TURN_MS = 20, KEY = 0xFFFF };

struct edge {
    struct rtmw_region *region, *programs[2]; /* of the line; of who publishes, of who takes */
    struct lines lines;
    struct line line;
    uint32_t number[2];           /* of the routes that were opened last: out, in */
    struct out *out[TOPICS_USED]; /* the last topic is opened again and again */
    struct in *in[TOPICS_USED];
    int descriptor[PAIR];
    uint64_t said, heard;
};

static struct edge edges[2];
static struct tls_context contexts[2];
static bool has_tls;
static uint32_t over;
static uint64_t counted;

static void topic(char name[32], const char *side, int from, int number)
{
    snprintf(name, 32, "%s/%d/%d", side, from, number);
}

/* ---- programs ---- */

static void *publish(void *edge)
{
    int from = (int)((struct edge *)edge - edges);
    rtmw_publisher *publishers[TOPICS_USED];
    struct rtmw_region *r = edges[from].programs[0];
    char name[32], bytes[20000] = {0};
    for (int n = 0; n < TOPICS_USED; n++) {
        topic(name, "out", from, n);
        publishers[n] = publish_on(r, name, RTMW_RELIABLE, (uint8_t)(3 * n));
    }
    for (uint64_t number[TOPICS_USED] = {0}, random = 7; !load_relaxed(&over);)
        for (int n = 0; n < TOPICS_USED; n++) {
            memcpy(bytes, &number[n], sizeof *number);
            uint64_t size = 8 + random_below(&random, random_below(&random, 8) ? 300 : sizeof bytes - 8);
            if (rtmw_publish(publishers[n], bytes, size, NULL) == RTMW_OK) number[n]++;
            if (random_below(&random, 30) == 0) rtmw_publisher_wait(publishers[n], 1000000);
        }
    for (int n = 0; n < TOPICS_USED; n++) rtmw_publisher_close(publishers[n]);
    return NULL;
}

static void *take(void *edge)
{
    int from = (int)((struct edge *)edge - edges);
    struct rtmw_region *r = edges[from].programs[1];
    rtmw_subscriber *subscribers[TOPICS_USED];
    uint64_t expected[TOPICS_USED] = {0};
    char name[32];
    for (int n = 0; n < TOPICS_USED; n++) {
        topic(name, "in", from, n);
        subscribers[n] = subscribe_to(r, name, (rtmw_subscriber_qos){.reliability = RTMW_RELIABLE, .depth = 16});
    }
    while (!load_relaxed(&over)) {
        bool ready[TOPICS_USED];
        rtmw_message m;
        rtmw_wait_any(subscribers, ready, TOPICS_USED, 10000000);
        for (int n = 0; n < TOPICS_USED; n++)
            while (rtmw_take(subscribers[n], &m) == RTMW_OK) {
                uint64_t number;
                memcpy(&number, m.data, sizeof number);
                CHECK(n >= STEADY ? number >= expected[n] : number == expected[n], "topic %d: %llu after %llu", n,
                      (unsigned long long)number, (unsigned long long)expected[n]);
                expected[n] = number + 1;
                fetch_add(&counted, 1);
                rtmw_release(r, m.descriptor);
            }
    }
    for (int n = 0; n < TOPICS_USED; n++) rtmw_subscriber_close(subscribers[n]);
    return NULL;
}

/* ---- routes ---- */

static void open_route(int from, int n)
{
    struct edge *e = &edges[from], *other = &edges[1 - from];
    struct out *o = e->out[n] = calloc(1, sizeof *o);
    struct in *i = other->in[n] = calloc(1, sizeof *i);
    char name[32];
    topic(name, "out", from, n);
    o->line = &e->line;
    o->number = ++e->number[0];
    o->reliable = o->resends = true;
    o->subscriber = subscribe_to(e->region, name, (rtmw_subscriber_qos){.reliability = RTMW_RELIABLE, .depth = 16});
    topic(name, "in", from, n);
    i->line = &other->line;
    i->number = ++other->number[1];
    i->reliable = true;
    i->publisher = publish_on(other->region, name, RTMW_RELIABLE, 0);
    i->window = WINDOW;
    o->ceilings = (struct ceilings){BANDS - 1, 0, o->number % 3 == 0 ? 4 << 20 : 0};
    i->ceilings = (struct ceilings){BANDS - 1, n < STEADY || o->number % 2 ? 0 : 10000, 0};
    CHECK(out_open(o) && in_open(i));
    out_limit(o, o->ceilings, 0);
}

static void close_route(int from, int n)
{
    struct edge *e = &edges[from], *other = &edges[1 - from];
    out_is_delivered(e->out[n]);
    in_is_delivered(other->in[n]);
    out_stop(e->out[n]);
    out_close(e->out[n]);
    in_close(other->in[n]);
    free(e->out[n]);
    free(other->in[n]);
}

/* ---- connections ---- */

static void connect_pair(int pair[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listening, (void *)&at, sizeof at) == 0 && listen(listening, 1) == 0);
    CHECK(getsockname(listening, (void *)&at, &size) == 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(pair[0], (void *)&at, sizeof at) == 0);
    pair[1] = accept(listening, NULL, NULL);
    close(listening);
}

static void shake(struct channel *one, struct channel *other)
{
    enum channel_state first, second;
    do {
        first = channel_handshake(one);
        second = channel_handshake(other);
        CHECK(first != CHANNEL_FAILED && second != CHANNEL_FAILED, "%s %s", one->words, other->words);
    } while (first != CHANNEL_DONE || second != CHANNEL_DONE);
}

static void open_channels(struct channel *channels[2], int pair[2])
{
    connect_pair(pair);
    for (int n = 0; n < 2; n++) channels[n] = channel_open(pair[n], has_tls ? &contexts[n] : NULL);
    shake(channels[0], channels[1]);
}

static void join_twin(void)
{
    struct channel *twins[2];
    int pair[2];
    open_channels(twins, pair);
    for (int n = 0; n < 2; n++) line_twin(&edges[n].line, twins[n]);
}

static void join(void)
{
    struct channel *channels[2][PAIR];
    for (int c = 0; c < PAIR; c++) {
        struct channel *both[2];
        int pair[2];
        open_channels(both, pair);
        for (int n = 0; n < 2; n++) {
            channels[n][c] = both[n];
            edges[n].descriptor[c] = fcntl(pair[n], F_DUPFD_CLOEXEC, 0);
        }
    }
    for (int n = 0; n < 2; n++) line_carry(&edges[n].line, channels[n][URGENT], channels[n][BULK]);
}

static void cut(int which)
{
    shutdown(edges[which % 2].descriptor[which / 2 % PAIR], SHUT_RDWR);
    for (int n = 0; n < 2; n++)
        for (int c = 0; c < PAIR; c++) close(edges[n].descriptor[c]);
}

/* ---- what Python does ---- */

static void look(struct edge *e)
{
    uint64_t sum = load_relaxed(&e->line.clock.rtt_ns);
    for (struct news *n = news_take(&e->line), *next; n; n = next) {
        uint64_t number = 0;
        if (n->kind == NEWS_CONTROL) memcpy(&number, n->bytes, sizeof number);
        CHECK(n->kind != NEWS_CONTROL || number == ++e->heard, "control %llu comes", (unsigned long long)number);
        CHECK(n->kind != NEWS_DOWN || n->number != DOWN_VIOLATION, "%.*s", (int)n->size, (const char *)n->bytes);
        next = n->next;
        free(n);
    }
    line_lock(&e->line);
    for (int c = 0; c < CHANNELS; c++)
        if (e->line.channel[c]) sum += load_relaxed(&e->line.channel[c]->read) + e->line.channel[c]->written;
    for (const struct out *o = e->line.outs; o; o = o->next) sum += o->in_flight + load_relaxed(&o->sent);
    unlock(&e->line.lock, LOCK_ENGINE);
    for (int n = 0; n < TOPICS_USED; n++)
        sum += load_relaxed(&e->in[n]->arrived) + load_relaxed(&e->in[n]->bytes) + load_relaxed(&e->out[n]->bytes);
    if (sum == 1) puts(""); /* it is read */
}

static void play(int turns)
{
    for (int turn = 0; turn < turns; turn++) {
        for (int n = 0; n < 2; n++) {
            uint64_t number = ++edges[n].said;
            CHECK(line_say(&edges[n].line, &number, sizeof number));
            look(&edges[n]);
        }
        if (turn % 5 == 4) cut(turn / 5), join();
        if (turn % 3 == 2) join_twin();
        if (turn % 7 == 6) close_route(turn / 7 % 2, STEADY), open_route(turn / 7 % 2, STEADY);
        if (turn % 11 == 10) {
            store_relaxed(&edges[0].line.bytes_per_second, turn % 2 ? 0 : 64 << 20);
            line_lock(&edges[0].line);
            line_pace(&edges[0].line);
            unlock(&edges[0].line.lock, LOCK_ENGINE);
        }
        poll(NULL, 0, TURN_MS);
    }
}

static void open_contexts(const char *pem, const char *der)
{
    static uint8_t bytes[2][FILE_MOST];
    size_t sizes[2];
    char words[256];
    struct tls_fault fault;
    const struct openssl *library = openssl_find("", words, sizeof words);
    CHECK(library, "%s", words);
    for (int n = 0; n < 2; n++) {
        FILE *file = fopen(n ? der : pem, "rb");
        CHECK(file, "%s cannot be read", n ? der : pem);
        sizes[n] = fread(bytes[n], 1, FILE_MOST, file);
        fclose(file);
    }
    for (int n = 0; n < 2; n++) {
        contexts[n].is_server = n;
        CHECK(tls_context_open(&contexts[n], library, (struct tls_pem){bytes[0], sizes[0]}, &fault), "%s",
              fault.reason);
        CHECK(tls_context_trust(&contexts[n], bytes[1], sizes[1]), "no certificate");
    }
    has_tls = true;
}

int main(int count, char **arguments)
{
    CHECK(count == 2 || count == 4, "usage: link_threads SECONDS [PEM DER]");
    int seconds = atoi(arguments[1]);
    signal(SIGPIPE, SIG_IGN); /* as in Python; OpenSSL writes without MSG_NOSIGNAL */
    uint32_t domain = domain_make(POOL, (uint32_t)(60 + 10 * seconds));
    pthread_t threads[4];
    if (count == 4) open_contexts(arguments[2], arguments[3]);
    for (int n = 0; n < 2; n++) {
        edges[n].region = attach(domain);
        for (int program = 0; program < 2; program++) edges[n].programs[program] = attach(domain);
        CHECK(lines_start(&edges[n].lines) == 0);
        edges[n].line = (struct line){
            .lines = &edges[n].lines, .region = edges[n].region, .zero_copy_most = POOL / 4, .hops = 1, .key = KEY};
        CHECK(line_start(&edges[n].line) == 0);
    }
    for (int n = 0; n < TOPICS_USED; n++) open_route(0, n), open_route(1, n);
    for (int n = 0; n < 2; n++) {
        CHECK(pthread_create(&threads[n], NULL, take, &edges[n]) == 0);
        CHECK(pthread_create(&threads[2 + n], NULL, publish, &edges[n]) == 0);
    }
    join();
    play(seconds * 1000 / TURN_MS);
    store_relaxed(&over, 1u);
    for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
    for (int n = 0; n < 2; n++) line_stop(&edges[n].line);
    for (int n = 0; n < TOPICS_USED; n++) close_route(0, n), close_route(1, n);
    for (int n = 0; n < 2; n++) {
        line_free(&edges[n].line);
        lines_stop(&edges[n].lines);
        tls_context_close(&contexts[n]);
    }
    for (int n = 0; n < 2; n++) {
        rtmw_detach(edges[n].region);
        for (int program = 0; program < 2; program++) rtmw_detach(edges[n].programs[program]);
    }
    struct rtmw_region *r = attach(domain);
    books_must_balance(r);
    rtmw_detach(r);
    CHECK(edges[0].line.twin.copies && edges[1].line.twin.copies, "nothing goes over twins");
    CHECK(counted > 100, "%llu messages came", (unsigned long long)counted);
    printf("threads: %llu messages came, %llu controls\n", (unsigned long long)counted,
           (unsigned long long)edges[0].heard);
    return 0;
}
