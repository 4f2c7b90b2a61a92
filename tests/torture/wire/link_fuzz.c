/* Fuzzes what a line makes of what its peer sends: frames, chunks, acknowledgements, room, controls, and resumption.
 *
 * An input is a list of acts (made up as a peer makes frames, or against the rules), or bytes as they would come, such as
 * what real lines have sent (link_corpus.py). What must hold: (1) no byte is touched that is not there, and the books of the
 * bus balance in the end (the sanitizers, side_close); (2) what is published has come whole, as it was sent, in its order,
 * and within the ceilings of its route; (3) what waits for the bus is bounded by the room that was given; (4) what breaks a
 * rule ends the connections; (5) what the line sends are frames.
 *
 * LLVMFuzzerTestOneInput, for libFuzzer where clang is, else for engine_main.c.
 */
#include "link_peer.h"

#include <string.h>
#include <unistd.h>

/* ---- this side ---- */

static void on_publish(rtmw_publisher *p, const uint8_t *bytes, uint64_t size, const rtmw_message_qos *qos)
{
    uint32_t band = (uint32_t)qos->priority;
    uint8_t last = size ? bytes[size - 1] : 0;
    (void)last; /* it is there */
    REQUIRE(p->route != LIMITED_IN || (band <= CEILING_PRIORITY && size <= CEILING_SIZE), "a ceiling is exceeded");
    if (!is_made_up) return;
    REQUIRE(qos->source_time_ns > p->newest[band], "a message comes again, or behind a later one");
    p->newest[band] = qos->source_time_ns;
    REQUIRE(is_as_made(bytes, size, p->route, band, qos->source_time_ns), "a message is not as it was sent");
}

static void look_at_controls(void)
{
    for (struct news *n = news_take(&side.line), *next; n; n = next) {
        next = n->next;
        free(n);
    }
}

static void close_peer(void)
{
    for (int c = 0; c < PAIR; c++) close(peer[c]);
    if (peer[TWIN] >= 0) close(peer[TWIN]);
    peer[TWIN] = -1;
}

static void carry(void)
{
    close_peer();
    side_carry(&side, peer);
    forget_peer();
    for (uint32_t route = 1; route <= CLOSED_IN; route++) /* as its ACKs say */
        for (uint32_t band = 0; band < BANDS; band++)
            if (route <= LIMITED_IN) numbers[route][band] = side.in[route - 1]->own[band];
    controls = side.line.controls_received;
    if (choose(2)) join_twin();
    side_turn(&side, 2);
    crime = NULL;
    if (choose(5)) greet();
}

static void look(void)
{
    side_turn(&side, 3);
    if (choose(3)) read_what_is_said();
    for (uint32_t place = 0; place < LIMITED_IN; place++) {
        const struct in *i = side.in[place];
        REQUIRE(i->waits < i->window + i->largest || !i->waits, "more waits than there is room for");
    }
    REQUIRE(!crime || !side_is_up(&side), "a rule was broken, and the line goes on: %s", crime);
    bool is_new = !side_is_up(&side) || is_odd;
    is_odd = false;
    if (is_new) carry();
}

static void act(void)
{
    static uint64_t id;
    uint32_t what = choose(25);
    if (what < SENDINGS)
        send_something(what);
    else if (what < 18)
        side_offer(&side, choose(2), (uint8_t)choose(BANDS), ++id, choose(3) ? choose(300) : 8 * choose(40000),
                   choose(2) * 60000);
    else if (what == 18)
        side.in[choose(2)]->publisher->full_for = choose(3) ? 4000 : choose(20);
    else if (what == 19)
        line_say(&side.line, "control", 7);
    else if (what == 20)
        stage.now_ns += choose(2) ? 2000000 : 200000000;
    else if (what == 21)
        odd();
    else if (what == 22)
        carry();
    else if (what == 23)
        join_twin();
    else
        look_at_controls();
}

static void open_side(bool is_checked)
{
    side_open(&side);
    side.is_checked = is_checked;
    struct in like = {.number = RELIABLE_IN, .reliable = true, .window = WINDOW, .ceilings = {7, 0, 0}, .wants_old = 1};
    side_in(&side, 0, like);
    like = (struct in){.number = LIMITED_IN, .window = WINDOW, .ceilings = {CEILING_PRIORITY, CEILING_SIZE, 0}};
    side_in(&side, 1, like);
    rate_limit_set(&side.in[1]->rate, 50000000);
    like = (struct in){.number = CLOSED_IN, .window = WINDOW, .ceilings = {7, 0, 0}};
    side_in(&side, 2, like);
    side_shut_in(&side, 2);
    side_out(&side, 0, RELIABLE_OUT, RTMW_RELIABLE);
    side_out(&side, 1, TIMELY_OUT, RTMW_TIMELY);
    side_out(&side, 2, CLOSED_OUT, RTMW_RELIABLE);
    side_shut_out(&side, 2);
    memset(numbers, 0, sizeof numbers);
    forget_peer();
    controls = 0;
    crime = NULL;
    side_carry(&side, peer);
    peer[TWIN] = -1;
    side_turn(&side, 2);
}

/* Frames as they lie, each behind a byte that says over which connection; its CRC is set right, but for an upper bit. */
static void send_bytes(const uint8_t *data, size_t size)
{
    while (size > 1 + sizeof(struct frame_header)) {
        uint8_t frame[FRAME_MOST];
        struct frame_header header;
        memcpy(&header, data + 1, sizeof header);
        size_t length = header.length < size - 1 ? header.length : size - 1;
        if (length < sizeof header + FRAME_CRC) length = size - 1 < 16 ? size - 1 : 16;
        if (length > sizeof frame) length = sizeof frame;
        memcpy(frame, data + 1, length);
        if (!(data[0] & 0x80) && length >= sizeof header + FRAME_CRC) {
            header.flags |= FRAME_CHECKED;
            frame_seal(frame, header, length - sizeof header - FRAME_CRC);
        }
        transmit(data[0] & 1, frame, length);
        look();
        data += 1 + length;
        size -= 1 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stage = (struct stage){.now_ns = 1000000000, .on_publish = on_publish};
    choices = data;
    choices_left = size;
    bool is_bytes = size && !*data, shuts_first = choose(2);
    is_made_up = !is_bytes;
    open_side(is_bytes || choose(2));
    if (is_bytes) send_bytes(data + 1, size - 1);
    if (!is_bytes) greet();
    for (uint32_t n = 0; !is_bytes && choices_left; n++) {
        act();
        if (crime || is_odd || choose(4)) look(); /* else more comes of it in one turn */
        if (n % CONTROLS_READ == 0) look_at_controls();
    }
    read_what_is_said();
    for (uint32_t place = 0; shuts_first && place < ROUTES_MOST; place++) side_shut_in(&side, place);
    if (shuts_first) more(), side_turn(&side, 3);
    side_close(&side);
    close_peer();
    read_what_is_said();
    return 0;
}
