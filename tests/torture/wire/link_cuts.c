/* Two lines that are cut: the C of both, turned by hand, with a wire between that carries frame by frame and is cut at each.
 *
 *   link_cuts SEED ROUNDS       rounds of random cuts, after one round for each frame that two lines exchange
 *
 * Of the frame at which it is cut nothing or a part arrives. The sides notice one after the other, and one of them may get
 * its new connections before it has read what came over the last ones. A twin comes and goes at any time, as fast or slow as
 * chance has it, and brings also what one before it has left. What must hold, whatever the cuts: (1) of RELIABLE and
 * ADAPTIVE routes each message is published once, in the order of its band, as it was sent, but for those that have expired;
 * (2) of a TIMELY one each is published once or is lost; (3) what is lost or has expired is counted as such, and no more;
 * (4) controls come once and in order; (5) in the end nothing is kept, waits, or is held; (6) the end comes.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link_stage.h"

enum { SIDES = 2, ROUTES = 3, MESSAGES = 20, CONTROLS = 6, STEPS_MOST = 60000, WINDOW = 60000, BUFFER = 1 << 18 };
static const rtmw_reliability kinds[ROUTES] = {RTMW_RELIABLE, RTMW_ADAPTIVE, RTMW_TIMELY};

static uint64_t chance_state;

static uint32_t chance(uint32_t below)
{
    chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(chance_state >> 33) % below;
}

/* ---- the wire ---- */

/* One direction of one connection: what has left a side and not reached the other one. */
struct pipe {
    uint8_t bytes[BUFFER];
    size_t size;
};

static struct side sides[SIDES];
static int wire[SIDES][CHANNELS]; /* the far ends of the sides' connections */
static struct pipe pipes[SIDES][CHANNELS];
static bool is_joined;
static uint64_t copies_first, copies_passed_over;
static uint64_t frames; /* that the wire has carried */

static size_t first_frame(const struct pipe *p)
{
    struct frame_header h;
    if (p->size < sizeof h) return 0;
    memcpy(&h, p->bytes, sizeof h);
    return p->size < h.length ? 0 : h.length;
}

static void fetch(int from, int channel)
{
    struct pipe *p = &pipes[from][channel];
    ssize_t count = recv(wire[from][channel], p->bytes + p->size, BUFFER - p->size, MSG_DONTWAIT);
    if (count > 0) p->size += (size_t)count;
}

/* So many of the first bytes. */
static void deliver(int from, int channel, size_t size)
{
    struct pipe *p = &pipes[from][channel];
    ssize_t count = size ? send(wire[1 - from][channel], p->bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    REQUIRE(count == (ssize_t)size || errno == EPIPE || errno == ECONNRESET, "the wire is full");
    memmove(p->bytes, p->bytes + size, p->size - size);
    p->size -= size;
}

/* A frame, if any pipe has one. */
static void carry_frame(void)
{
    int first = (int)chance(SIDES * CHANNELS);
    for (int n = 0; n < SIDES * CHANNELS; n++) {
        int at = (first + n) % (SIDES * CHANNELS), from = at / CHANNELS, channel = at % CHANNELS;
        fetch(from, channel);
        size_t size = first_frame(&pipes[from][channel]);
        if (!size || wire[1 - from][channel] < 0) continue;
        frames++;
        deliver(from, channel, size);
        return;
    }
}

static void deliver_part(int from, int channel)
{
    fetch(from, channel);
    deliver(from, channel, chance(2) ? chance((uint32_t)pipes[from][channel].size + 1) : 0);
}

/* What is on its way is gone, or comes over the next twin. */
static void cut_twin(void)
{
    for (int side = 0; side < SIDES && wire[side][TWIN] >= 0; side++) {
        deliver_part(side, TWIN);
        if (chance(2)) pipes[side][TWIN].size = 0;
    }
    for (int side = 0; side < SIDES && wire[side][TWIN] >= 0; side++) {
        close(wire[side][TWIN]);
        wire[side][TWIN] = -1;
    }
}

static void join_twin(void)
{
    cut_twin();
    for (int side = 0; side < SIDES; side++) wire[side][TWIN] = side_twin(&sides[side]);
}

/* A part of what is on its way arrives, and the rest is gone. */
static void cut(void)
{
    for (int from = 0; from < SIDES; from++)
        for (int channel = 0; channel < PAIR; channel++) {
            deliver_part(from, channel);
            pipes[from][channel].size = 0;
        }
    if (chance(2)) cut_twin();
    int first = (int)chance(SIDES);
    for (int n = 0; n < SIDES; n++) {
        int side = n ? 1 - first : first;
        for (int channel = 0; channel < PAIR; channel++) close(wire[side][channel]);
        if (chance(3))
            side_turn(&sides[side], 1 + (int)chance(4)); /* else it is told of new ones before it has looked */
    }
    is_joined = false;
}

static void join(void)
{
    for (int side = 0; side < SIDES; side++) side_carry(&sides[side], wire[side]);
    is_joined = true;
}

/* ---- what is sent, and what comes ---- */

static struct {
    uint64_t offered[ROUTES][BANDS], came[ROUTES][BANDS]; /* ids, which begin at 1 */
    uint64_t published[ROUTES];
    uint32_t controls_said, controls_came;
} world[SIDES]; /* by the side that sends */

static void on_publish(rtmw_publisher *p, const uint8_t *bytes, uint64_t size, const rtmw_message_qos *qos)
{
    int from = p->region == &sides[0].region;
    uint32_t route = p->route - 1, band = (uint32_t)qos->priority;
    uint64_t id = qos->source_time_ns, *came = &world[from].came[route][band];
    REQUIRE(is_as_made(bytes, size, p->route, band, id), "a message is not as it was sent");
    REQUIRE(id > *came, "message %llu comes after %llu", (unsigned long long)id, (unsigned long long)*came);
    *came = id;
    world[from].published[route]++;
}

static void offer(int from)
{
    static const size_t sizes[] = {0, 60, 3000, 16300, 17000, 40000};
    uint32_t route = chance(ROUTES), band = chance(BANDS);
    uint64_t id = ++world[from].offered[route][band], lifetime = chance(3) ? 0 : 200000 * (uint64_t)chance(50);
    side_offer(&sides[from], route, (uint8_t)band, id, sizes[chance(sizeof sizes / sizeof *sizes)], lifetime);
}

/* What a cut took of a TIMELY route is seen by the number of the next message. */
static void offer_last(void)
{
    for (int from = 0; from < SIDES; from++)
        for (uint8_t band = 0; band < BANDS; band++)
            side_offer(&sides[from], ROUTES - 1, band, ++world[from].offered[ROUTES - 1][band], 10, 0);
}

static void say(int from)
{
    uint32_t number = world[from].controls_said++;
    line_say(&sides[from].line, &number, sizeof number);
}

static void hear(int side)
{
    for (struct news *n = news_take(&sides[side].line), *next; n; n = next) {
        uint32_t number = 0;
        if (n->kind == NEWS_CONTROL) memcpy(&number, n->bytes, sizeof number);
        REQUIRE(n->kind != NEWS_CONTROL || number == world[1 - side].controls_came, "control %u comes", number);
        REQUIRE(n->kind != NEWS_DOWN || n->number != DOWN_VIOLATION, "a rule is broken: %.*s", (int)n->size,
                (const char *)n->bytes);
        world[1 - side].controls_came += n->kind == NEWS_CONTROL;
        next = n->next;
        free(n);
    }
}

/* ---- a round ---- */

static void open_sides(void)
{
    memset(world, 0, sizeof world);
    memset(pipes, 0, sizeof pipes);
    frames = 0;
    for (int side = 0; side < SIDES; side++) side_open(&sides[side]), wire[side][TWIN] = -1;
    for (int side = 0; side < SIDES; side++)
        for (uint32_t route = 0; route < ROUTES; route++) {
            struct in like = {.number = route + 1,
                              .reliable = kinds[route] == RTMW_RELIABLE,
                              .window = WINDOW,
                              .ceilings = {.max_priority = BANDS - 1}};
            side_in(&sides[side], route, like);
            side_out(&sides[side], route, route + 1, kinds[route]);
        }
}

static bool is_over(void)
{
    for (int side = 0; side < SIDES; side++) {
        if (world[side].controls_came < world[side].controls_said || !is_joined) return false;
        for (uint32_t route = 0; route < ROUTES; route++)
            if (!out_is_delivered(sides[side].out[route]) || sides[side].in[route]->first) return false;
    }
    return true;
}

static void count_up_all(int from, uint32_t route)
{
    const struct out *o = sides[from].out[route];
    const struct in *i = sides[1 - from].in[route];
    uint64_t offered = 0;
    for (uint32_t band = 0; band < BANDS; band++) offered += world[from].offered[route][band];
    uint64_t came = world[from].published[route], expired = o->expired + i->expired;
    REQUIRE(kinds[route] == RTMW_TIMELY || !i->lost, "%llu messages are lost", (unsigned long long)i->lost);
    REQUIRE(came + i->lost <= offered && came + i->lost + expired >= offered,
            "of %llu messages %llu came, %llu are lost, %llu have expired", (unsigned long long)offered,
            (unsigned long long)came, (unsigned long long)i->lost, (unsigned long long)expired);
    REQUIRE(kinds[route] != RTMW_TIMELY || !o->resent, "what is TIMELY was sent again");
    REQUIRE(!o->in_flight && !i->waits, "something is thought to be on its way");
}

/* One step of either side or of the wire. */
static void step(void)
{
    uint32_t what = chance(8);
    int side = (int)chance(SIDES);
    if (what < 3)
        side_turn(&sides[side], 1);
    else if (what == 3 && !chance(40))
        chance(3) ? join_twin() : cut_twin();
    else if (what < 6 && is_joined)
        carry_frame();
    else if (what == 6)
        hear(side);
    else if (!chance(20))
        sides[side].in[0]->publisher->full_for = chance(30); /* a RELIABLE subscriber has no room */
}

/* Cut at the frames of these numbers. Returns how many were carried. */
static uint64_t play(uint64_t seed, const uint64_t *cuts, size_t count)
{
    uint32_t messages[SIDES] = {MESSAGES, MESSAGES / 2};
    bool is_last = false;
    chance_state = seed;
    open_sides();
    join();
    for (uint32_t steps = 0;; steps++) {
        int side = (int)chance(SIDES);
        if (messages[side] && !chance(3)) messages[side]--, offer(side);
        if (world[side].controls_said < CONTROLS && !chance(9)) say(side);
        step();
        if (count && !is_last && is_joined && frames >= *cuts) cut(), cuts++, count--;
        if (!is_joined && !chance(12)) join();
        if (!messages[0] && !messages[1] && is_over()) {
            if (is_last) break;
            is_last = true;
            offer_last();
        }
        if (steps == STEPS_MOST) {
            fprintf(stderr, "fuzz: it stands still after %llu frames\n", (unsigned long long)frames);
            abort();
        }
    }
    for (int from = 0; from < SIDES; from++) {
        hear(from);
        for (uint32_t route = 0; route < ROUTES; route++) count_up_all(from, route);
        copies_first += sides[from].line.twin.first;
        copies_passed_over += sides[from].line.twin.passed_over;
    }
    cut_twin();
    for (int from = 0; from < SIDES; from++) side_close(&sides[from]);
    for (int from = 0; is_joined && from < SIDES; from++)
        for (int channel = 0; channel < PAIR; channel++) close(wire[from][channel]);
    return frames;
}

int main(int count, char **arguments)
{
    uint64_t seed = count > 1 ? strtoull(arguments[1], NULL, 10) : 1,
             rounds = count > 2 ? strtoull(arguments[2], NULL, 10) : 100;
    stage = (struct stage){.now_ns = 1000000000, .on_publish = on_publish};
    uint64_t whole = play(seed, NULL, 0);
    for (uint64_t at = 0; at <= whole; at++) play(seed, &at, 1);
    for (uint64_t round = 1; round <= rounds; round++) {
        uint64_t cuts[4];
        chance_state = seed * 1000003 + round;
        for (uint64_t n = 0, at = 0; n < 4; n++) cuts[n] = at += chance(n ? 30 : (uint32_t)whole);
        play(seed * 1000003 + round, cuts, 1 + round % 4);
    }
    printf("%llu frames, a cut at each, and %llu rounds\n", (unsigned long long)whole, (unsigned long long)rounds);
    printf("of their copies %llu came first, and %llu were passed over\n", (unsigned long long)copies_first,
           (unsigned long long)copies_passed_over);
    return 0;
}
