/* What is counted as lost of a RELIABLE lane, and told: each gap of sequence numbers once, and none that is not there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_stage.h"

enum { FULL = 1 << 20 };

static struct carried table[CARRIED]; /* as the file: it outlives routes and nodes */
static uint64_t published;

static void on_publish(const uint8_t *data, size_t size, uint64_t publisher, uint8_t priority)
{
    (void)data, (void)size, (void)publisher, (void)priority;
    published++;
}

static void open_route(void)
{
    stage_open(FRAMING_OCTETS, true);
    stage.engine.carried = table;
    stage.on_publish = on_publish;
    published = 0;
}

static void begin(void)
{
    memset(table, 0, sizeof table);
    open_route();
}

/* As when a node is started again: of what it knew the table is left. */
static void restart(void)
{
    stage_close();
    open_route();
}

static uint8_t bytes[4096];

static size_t put(size_t at, const void *from, size_t size)
{
    memcpy(bytes + at, from, size);
    return at + size;
}

/* A sample with one message, or a pack; the last one has this number. */
static void receive(dds_instance_handle_t writer, uint64_t sequence, uint8_t version, uint8_t messages)
{
    struct trailer trailer = {.magic = TRAILER_MAGIC, .version = version, .sequence = sequence};
    uint32_t length = 8;
    uint64_t body = sequence;
    struct packed entry = {.publisher = 5, .source_time_ns = 9, .size = 8};
    size_t at = put(put(0, "\0\1\0\0", 4), &length, 4);
    for (uint8_t n = 0; n < messages; n++) at = put(at, &body, 8);
    if (version == TRAILER_PACK) {
        trailer.messages = messages;
        for (uint8_t n = 0; n < messages; n++) at = put(at, &entry, sizeof entry);
    }
    stage_receive(writer, bytes, put(at, &trailer, sizeof trailer), 1);
}

static void one(uint64_t sequence) { receive(LEGIT, sequence, TRAILER_VERSION, 1); }

static void must_be_lost(uint64_t messages)
{
    REQUIRE(stage.inbound->lost == messages, "%u are counted as lost", (unsigned)stage.inbound->lost);
    REQUIRE(stage.missed == messages * stage.subscribers, "subscribers were told of %u", (unsigned)stage.missed);
}

static void a_gap_is_counted_also_over_a_restart(void)
{
    begin();
    one(1);
    one(5);
    must_be_lost(3);
    restart();
    one(8);
    must_be_lost(2);
    REQUIRE(published == 1, "%u are published", (unsigned)published);
    stage_close();
}

static void a_gap_before_a_sample_that_is_dropped_then_is_counted_once(void)
{
    begin();
    one(1);
    stage.full_for = FULL;
    stage.engine.all.count = UINT32_MAX; /* nothing more may wait */
    one(5);
    stage.engine.all.count = 0;
    stage.full_for = 0;
    REQUIRE(stage.inbound->overflowed == 1 && published == 1, "it is not dropped");
    must_be_lost(3);
    one(6);
    must_be_lost(4);
    stage_close();
}

static void what_nobody_asked_for_is_not_lost_over_a_restart(void)
{
    begin();
    one(1);
    for (uint64_t sequence = 2; sequence < 7; sequence++) receive(LEGIT, sequence, TRAILER_OLD, 1);
    REQUIRE(published == 1, "kept ones are published to those who want none");
    restart();
    one(7);
    must_be_lost(0);
    stage_close();
}

/* A writer that keeps messages sends them again to the reader of a node that is started again. */
static void what_comes_again_takes_nothing_back(void)
{
    begin();
    for (uint64_t sequence = 1; sequence < 9; sequence++) one(sequence);
    restart();
    one(5);
    restart();
    one(9);
    must_be_lost(0);
    stage_close();
}

static void what_was_published_of_a_pack_is_not_lost(void)
{
    begin();
    one(1);
    stage.full_after = 3; /* the third */
    receive(LEGIT, 5, TRAILER_PACK, 4);
    REQUIRE(published == 3, "%u are published", (unsigned)published);
    restart();
    one(6);
    must_be_lost(2);
    stage_close();
}

static void what_was_meant_for_nobody_here_is_not_lost(void)
{
    begin();
    one(1);
    restart();
    stage.subscribers = 0; /* that were there when it was lost */
    one(5);
    must_be_lost(0);
    REQUIRE(published == 1, "it is not published");
    stage.subscribers = 1;
    one(7);
    must_be_lost(1);
    stage_close();
}

/* ---- the table cannot be made, or only with patience ---- */

static int refusals, refusal;

int stage_posix_fallocate(int fd, off_t offset, off_t size)
{
    (void)offset;
    return refusals && refusals-- ? refusal : ftruncate(fd, size) ? errno : 0;
}

static bool opens(int times, int error)
{
    struct engine e = {0};
    char path[] = "/dev/shm/rtmw-gaps-XXXXXX";
    close(mkstemp(path));
    refusals = times;
    refusal = error;
    bool opened = carried_open(&e, path);
    int told = errno;
    if (opened) e.carried[CARRIED - 1].sequence = 1;
    carried_close(&e);
    unlink(path);
    errno = told;
    return opened;
}

static void a_signal_does_not_keep_the_table_from_being_made_and_a_full_disk_does(void)
{
    REQUIRE(opens(3, EINTR), "a signal ends it");
    REQUIRE(!opens(1, ENOSPC) && errno == ENOSPC, "it is told %d", errno);
}

int main(void)
{
    a_signal_does_not_keep_the_table_from_being_made_and_a_full_disk_does();
    a_gap_is_counted_also_over_a_restart();
    a_gap_before_a_sample_that_is_dropped_then_is_counted_once();
    what_nobody_asked_for_is_not_lost_over_a_restart();
    what_comes_again_takes_nothing_back();
    what_was_published_of_a_pack_is_not_lost();
    what_was_meant_for_nobody_here_is_not_lost();
    puts("gaps are counted as they are");
    return 0;
}
