/* The peer: see link_peer.h. */
#include "link_peer.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- what decides ---- */

const uint8_t *choices;
size_t choices_left;

uint32_t choose(uint32_t below)
{
    uint32_t value = 0;
    int bytes = below > 256 ? 2 : 1;
    for (int n = 0; n < bytes && choices_left; n++, choices_left--) value = value << 8 | *choices++;
    return value % below;
}

/* ---- the peer ---- */

struct side side;
int peer[CHANNELS];
bool is_made_up, is_odd;
const char *crime;
uint64_t numbers[CLOSED_IN + 1][BANDS], controls;
static size_t filled[CHANNELS]; /* bytes of a frame that has not come whole here */

static struct begun {
    uint32_t route;
    uint64_t number, size, sent;
} under_way[BANDS];
static bool has_resumed;

static void wrong_if(bool is_wrong, const char *what)
{
    if (is_wrong) crime = what;
}

void forget_peer(void)
{
    memset(under_way, 0, sizeof under_way);
    memset(filled, 0, sizeof filled);
    has_resumed = false;
}

void transmit(int channel, const uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at < size && side_is_up(&side);) {
        ssize_t count = send(peer[channel], bytes + at, size - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count > 0) at += (size_t)count;
        if (count < 0 && errno != EAGAIN) return;
        if (count < 0 || choose(4)) side_turn(&side, 2); /* else what follows comes with it */
    }
}

static void say(int channel, enum frame_kind kind, uint32_t route, uint8_t flags, const void *head, size_t size)
{
    uint8_t frame[FRAME_MOST + FRAME_CRC];
    memcpy(frame + sizeof(struct frame_header), head, size);
    struct frame_header header = {.kind = (uint8_t)kind, .flags = flags, .route = route};
    if (side.is_checked) header.flags |= FRAME_CHECKED;
    size = frame_seal(frame, header, size);
    if (side.is_checked && !choose(60)) {
        frame[2 + choose((uint32_t)size - 2)] ^= (uint8_t)(1u << choose(8));
        wrong_if(true, "a bit was turned");
    }
    transmit(channel, frame, size);
}

void join_twin(void)
{
    if (peer[TWIN] >= 0) close(peer[TWIN]);
    peer[TWIN] = side_twin(&side);
    filled[TWIN] = 0;
}

static size_t chunk(uint8_t *to, struct begun *u, uint32_t band, size_t most)
{
    size_t left = u->size - u->sent, size = left < most ? left : most;
    for (size_t n = 0; n < size; n++) to[n] = byte_of(u->route, band, u->number, u->sent + n);
    u->sent += size;
    return size;
}

static void finish(struct begun *u, uint32_t band)
{
    if (u->sent == u->size && u->route <= CLOSED_IN) numbers[u->route][band] = u->number;
    if (u->sent == u->size) *u = (struct begun){0};
}

static uint64_t some_size(void)
{
    static const uint64_t sizes[] = {
        0, 1, 60, 3000, 3001, 16000, 40000, POOL, POOL + 1, UINT64_C(1) << 39, UINT64_MAX - 9};
    return choose(3) ? choose(5000) : sizes[choose(sizeof sizes / sizeof *sizes)];
}

static void begin(void)
{
    uint8_t body[FRAME_MOST - sizeof(struct frame_header) - FRAME_CRC];
    uint32_t band = choose(BANDS), route = choose(20) ? 1 + choose(CLOSED_IN) : choose(2) * 9;
    if (under_way[band].route && choose(30)) return;
    wrong_if(under_way[band].route, "a message in the midst of one");
    wrong_if(!route || route > CLOSED_IN, "a route that was never opened");
    uint64_t before = route <= CLOSED_IN ? numbers[route][band] : 0;
    uint64_t number = before + 1 + (choose(4) ? 0 : choose(20));
    if (!choose(40)) number = before;
    if (!choose(40)) number = before + (UINT64_C(1) << 33);
    wrong_if(number == before && (route != CLOSED_IN || !number), "a number that came before");
    wrong_if(number > before + NUMBER_MOST && route != CLOSED_IN, "a number that cannot be");
    struct begun u = {route, number, some_size(), 0};
    struct frame_begin b = {.size = u.size,
                            .source_time_ns = number,
                            .hops = 1,
                            .trailer = {.magic = TRAILER_MAGIC,
                                        .version = choose(9) ? TRAILER_VERSION : TRAILER_OLD,
                                        .priority = (uint8_t)band,
                                        .publisher = 5,
                                        .sequence = number,
                                        .lifetime_ns = choose(6) ? 0 : choose(60000)}};
    size_t size = chunk(body + sizeof b, &u, band, u.size ? 1 + choose(sizeof body - sizeof b) : 0);
    if (!choose(60)) b.size = choose((uint32_t)size + 1);
    wrong_if(b.size >> 40, "a size beyond all pools");
    wrong_if(b.size < size, "more bytes than the message has");
    if (b.size != u.size) u.size = u.sent = b.size;
    memcpy(body, &b, sizeof b);
    if (!choose(400)) { /* it may break another rule now, or none */
        body[choose(sizeof b)] ^= (uint8_t)(1u << choose(8));
        is_made_up = false, is_odd = true, crime = NULL;
    }
    under_way[band] = u;
    finish(&under_way[band], band);
    bool is_elsewhere = !choose(60);
    wrong_if(is_elsewhere, "a message on the other connection");
    say(channel_of(band) ^ is_elsewhere, FRAME_BEGIN, route, (uint8_t)band, body, sizeof b + size);
}

void more(void)
{
    uint8_t body[FRAME_MOST - sizeof(struct frame_header)] = {0};
    uint32_t most = (uint32_t)sizeof body - (side.is_checked ? FRAME_CRC : 0);
    uint32_t band = choose(BANDS);
    struct begun *u = &under_way[band];
    while (!u->route && choose(8)) u = &under_way[band = choose(BANDS)];
    wrong_if(!u->route, "more of nothing");
    uint32_t route = choose(60) ? u->route : u->route + 1;
    wrong_if(route != u->route, "more of another route");
    size_t size = u->route ? chunk(body, u, band, choose(4) ? 1 + choose(most - 1) : most) : 1;
    size_t beyond = choose(60) || size == most ? 0 : 1 + choose(most - (uint32_t)size);
    if (u->sent + beyond <= u->size) beyond = 0;
    wrong_if(beyond, "more than there is");
    finish(u, band);
    say(channel_of(band), FRAME_MORE, route, (uint8_t)band, body, size + beyond);
}

/* Over the twin, where nothing is a crime: of a message that has come, is next, or is not. */
static void copy(void)
{
    uint8_t frame[FRAME_MOST + FRAME_CRC];
    uint32_t band = choose(20) ? URGENT_FROM + choose(BANDS - URGENT_FROM) : choose(BANDS),
             route = 1 + choose(CLOSED_IN);
    const struct in *i = route <= LIMITED_IN ? side.in[route - 1] : NULL;
    struct begun u = {route, (i ? i->received[band] : 0) + choose(4), choose(5000), 0};
    struct frame_begin b = {.size = u.size + !choose(60),
                            .source_time_ns = u.number,
                            .hops = 1,
                            .trailer = {.magic = TRAILER_MAGIC,
                                        .version = TRAILER_VERSION,
                                        .priority = (uint8_t)band,
                                        .publisher = 5,
                                        .sequence = u.number}};
    size_t size = sizeof b + chunk(frame + sizeof(struct frame_header) + sizeof b, &u, band, u.size);
    memcpy(frame + sizeof(struct frame_header), &b, sizeof b);
    uint8_t kind = choose(60) ? FRAME_BEGIN : (uint8_t)choose(14), flags = side.is_checked ? FRAME_CHECKED : 0;
    size = frame_seal(frame, (struct frame_header){.kind = kind, .flags = flags | (uint8_t)band, .route = route}, size);
    if (side.is_checked && !choose(60)) frame[2 + choose((uint32_t)size - 2)] ^= (uint8_t)(1u << choose(8));
    transmit(TWIN, frame, size);
}

static void drop(void)
{
    uint32_t band = choose(BANDS), route = under_way[band].route ? under_way[band].route : 1 + choose(CLOSED_IN);
    uint64_t number = under_way[band].route ? under_way[band].number : numbers[route][band] + 1;
    if (!choose(40)) number--, wrong_if(under_way[band].route || route != CLOSED_IN, "the end of another message");
    struct frame_drop d = {number, 1 + choose(2)};
    under_way[band] = (struct begun){0};
    if (route <= CLOSED_IN) numbers[route][band] = number;
    say(channel_of(band), FRAME_DROP, route, (uint8_t)band, &d, sizeof d);
}

static void acknowledge(void)
{
    static const uint32_t routes[] = {RELIABLE_OUT, TIMELY_OUT, CLOSED_OUT};
    uint32_t route = choose(30) ? routes[choose(3)] : 9;
    struct frame_ack ack = {.room = choose(4) ? choose(60000) : UINT64_MAX};
    wrong_if(route == 9, "an acknowledgement of a route that was never opened");
    struct out *o = route == CLOSED_OUT || route == 9 ? NULL : side.out[route - RELIABLE_OUT];
    for (uint32_t band = 0; o && band < BANDS; band++) {
        const struct under_way *u = &side.line.under_way[band];
        uint64_t least = o->band[band].acknowledged, most = o->band[band].number;
        if (u->out == o) most = u->kept->number - 1;
        ack.number[band] = most > least ? least + choose((uint32_t)(most - least) + 1) : least;
        if (choose(60)) continue;
        ack.number[band] = choose(2) ? most + 1 : least - 1;
        wrong_if(true, "an acknowledgement of what was not sent");
    }
    say(URGENT, FRAME_ACK, route, 0, &ack, sizeof ack);
}

static void acknowledge_controls(void)
{
    struct frame_ack ack = {.room = choose(300), .number = {side.line.control_number}};
    if (!choose(30)) ack.number[0]++, wrong_if(true, "an acknowledgement of a control that was not sent");
    say(URGENT, FRAME_ACK, 0, 0, &ack, sizeof ack);
}

static void resume(void)
{
    if (has_resumed && choose(40)) return;
    wrong_if(has_resumed, "a second RESUME");
    has_resumed = true;
    say(URGENT, FRAME_RESUME, 0, 0, "", 0);
}

/* As an honest peer begins. */
void greet(void)
{
    for (uint32_t place = 0; place < 2; place++) {
        const struct out *o = side.out[place];
        struct frame_ack ack = {.room = 100000};
        for (uint32_t band = 0; band < BANDS; band++) ack.number[band] = o->band[band].acknowledged;
        say(URGENT, FRAME_ACK, o->number, 0, &ack, sizeof ack);
    }
    has_resumed = true;
    say(URGENT, FRAME_RESUME, 0, 0, "", 0);
}

static void control(void)
{
    uint8_t body[400] = {0};
    uint64_t number = ++controls;
    if (!choose(60)) number += 1, wrong_if(true, "a control is left out");
    memcpy(body, &number, sizeof number);
    say(URGENT, FRAME_CONTROL, 0, 0, body, sizeof number + choose(sizeof body - sizeof number));
}

/* Any kind, and bytes that mean nothing: what that has changed at the line nobody can say, so there are new connections. */
void odd(void)
{
    static const uint16_t ranges[][2] = {[FRAME_RESUME] = {0, 0},      [FRAME_ACK] = {72, 72},
                                         [FRAME_CONTROL] = {8, 16384}, [FRAME_BEGIN] = {64, 16384},
                                         [FRAME_MORE] = {1, 16384},    [FRAME_DROP] = {16, 16},
                                         [FRAME_PING] = {8, 8},        [FRAME_PONG] = {16, 16},
                                         [FRAME_BYE] = {2, 514}};
    uint8_t bytes[700] = {0};
    uint32_t kind = choose(14), size = choose(2) ? choose(sizeof bytes) : choose(80);
    if (kind == FRAME_BYE && choose(10)) return;
    for (uint32_t n = 0; n < size && n < 30; n++) bytes[n] = (uint8_t)choose(256);
    bool is_known = kind >= FRAME_RESUME && kind <= FRAME_BYE;
    wrong_if(!is_known, "a frame that no line takes");
    wrong_if(is_known && (size < ranges[kind][0] || size > ranges[kind][1]), "a length that is not one of the kind");
    is_odd = true;
    if (kind == FRAME_BEGIN || kind == FRAME_MORE) is_made_up = false; /* who can say what that was */
    say((int)choose(2), (enum frame_kind)kind, choose(2) * choose(9), (uint8_t)(choose(3) ? 0 : choose(256)), bytes,
        size);
}

static void ping(void)
{
    uint64_t words[2] = {choose(4) ? stage.now_ns - choose(5000) : UINT64_MAX, stage.now_ns * choose(3)};
    if (choose(2))
        say((int)choose(2), FRAME_PING, 0, 0, words, sizeof *words);
    else
        say((int)choose(2), FRAME_PONG, 0, 0, words, sizeof words);
}

void send_something(uint32_t what)
{
    static void (*const acts[])(void) = {begin,  begin,   begin, begin,       more,        more,
                                         more,   more,    drop,  acknowledge, acknowledge, acknowledge_controls,
                                         resume, control, ping,  copy,        copy};
    _Static_assert(sizeof acts / sizeof *acts == SENDINGS, "each has a number");
    acts[what]();
}

/* What the line sends: frames, but for the last one, which may have come in part. */
void read_what_is_said(void)
{
    static uint8_t bytes[CHANNELS][4 * FRAME_MOST];
    for (int c = 0; c < CHANNELS; c++) {
        ssize_t count = recv(peer[c], bytes[c] + filled[c], sizeof bytes[c] - filled[c], MSG_DONTWAIT);
        size_t size = filled[c] + (count > 0 ? (size_t)count : 0), at = 0;
        struct frame f;
        const char *words;
        enum frame_state state;
        while ((state = frame_read(bytes[c] + at, size - at, side.is_checked, &f, &words)) == FRAME_WHOLE)
            at += f.header.length;
        REQUIRE(state == FRAME_PART, "the line has sent %s", words);
        memmove(bytes[c], bytes[c] + at, size - at);
        filled[c] = size - at;
    }
}
