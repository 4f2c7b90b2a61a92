/* What one participant may have waiting, and all together; and how many pauses. Without the memory that it would take. */
#include <stdio.h>
#include <stdlib.h>

#include "engine_stage.h"

enum { MIB = 1 << 20, STRANGERS = 2000, TOPICS = 1000 };

static struct backlog backlog;

static bool add(uint64_t node, uint32_t bytes)
{
    struct sample sample = {.data = stage_claim(bytes), .node = node};
    bool added = backlog_add(&stage.engine, &backlog, sample);
    if (!added) ddsi_serdata_unref(sample.data);
    return added;
}

static void one_takes_its_share_and_leaves_others_theirs(void)
{
    uint32_t large = 0, small = 0;
    while (large < 1000 && add(1, 16 * MIB)) large++;
    REQUIRE(large == 16, "%u MiB of one wait", large * 16);
    REQUIRE(add(2, 1), "another one may not wait");
    while (small < 1 << 20 && add(3, 1)) small++;
    REQUIRE(small == 1 << 18, "%u samples of one wait", small);
    REQUIRE(add(2, 1), "another one may not wait");
    backlog_clear(&stage.engine, &backlog);
    REQUIRE(add(1, 16 * MIB), "what is over is still counted");
    backlog_clear(&stage.engine, &backlog);
}

static void many_that_are_nobody_take_no_more_than_all_may(void)
{
    uint64_t mib = 0;
    for (uint64_t node = 0; node < STRANGERS; node++)
        while (mib < 100000 && add(node << 7 | 1, 16 * MIB)) mib += 16;
    REQUIRE(mib == 1024, "%u MiB wait", (unsigned)mib);
    backlog_clear(&stage.engine, &backlog);
}

static void one_pauses_so_many_topics_at_most(void)
{
    for (uint32_t topic = 1; topic <= TOPICS; topic++) {
        uint32_t note[4] = {0x100, topic, 0, 1};
        stage_hear((const uint8_t *)note, sizeof note);
    }
    REQUIRE(stage.engine.pause_count == PAUSES_OF_ONE, "%u pauses of one are in force", stage.engine.pause_count);
    REQUIRE(stage.engine.flow_crowded == TOPICS - PAUSES_OF_ONE, "they are not counted");
}

/* The stage shows one reader of each topic: that of LEGIT. What is heard is STRANGER's. */
static void only_who_reads_a_topic_pauses_it(void)
{
    struct outbound o = {.engine = &stage.engine, .topic = 7};
    REQUIRE(!flow_is_paused(&o, now_monotonic_ns()), "a stranger pauses a topic");
    REQUIRE(stage.engine.flow_unmatched == 1, "it is not counted");
    dds_endpoint_t *legit = dds_get_matched_publication_data(FLOW, LEGIT);
    for (uint32_t n = 0; n < stage.engine.pause_count; n++)
        if (stage.engine.pauses[n].topic == 7)
            stage.engine.pauses[n] = (struct pause){7, node_of(legit), 2000, UNPROVEN};
    dds_builtintopic_free_endpoint(legit);
    REQUIRE(flow_is_paused(&o, now_monotonic_ns()), "who reads a topic does not pause it");
}

int main(void)
{
    stage_open(FRAMING_OCTETS, true);
    one_takes_its_share_and_leaves_others_theirs();
    many_that_are_nobody_take_no_more_than_all_may();
    one_pauses_so_many_topics_at_most();
    only_who_reads_a_topic_pauses_it();
    stage_close();
    puts("limits hold");
    return 0;
}
