/* Slots of endpoints. The word of a slot names its owner and its topic, so a sweep finds the slots of the dead, and whoever
 * wants to give the slot of a topic back finds the endpoints that keep it.
 */
#include "topics.h"

uint64_t slot_claim(struct rtmw_region *r, uint64_t *words, uint32_t count, uint32_t *top, uint32_t topic,
                    uint32_t *slot)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        for (uint32_t i = 0; i < count; i++) {
            uint64_t word = load_relaxed(&words[i]);
            if (slot_state_of(word) != SLOT_FREE) continue;
            raise_to(top, i + 1);
            uint64_t mine = slot_make(slot_generation(word) + 1, topic, r->me, SLOT_CLAIMED);
            if (!cas64(&words[i], word, mine)) continue; /* pairs with mark_used in retire.c */
            *slot = i;
            return mine;
        }
        if (attempt == 0 && !parked_sweep(r) && !sweep_the_dead(r)) break;
    }
    return 0;
}

bool slot_free(uint64_t *word, uint64_t value)
{
    return cas64(word, value, slot_make(slot_generation(value), 0, 0, SLOT_FREE));
}

/* The topic may give its slot back after its name was found and before the endpoint names it: then all over again. */
int endpoint_claim(struct rtmw_region *r, const char *name, bool publishes, struct claimed *claimed)
{
    uint64_t *words = publishes ? r->publisher_words : r->subscriber_words, life;
    uint32_t count = publishes ? r->header->publishers : r->header->subscribers;
    uint32_t *top = publishes ? &r->hints->publishers_top : &r->hints->subscribers_top;
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        int code = topic_open(r, name, &life);
        if (code != RTMW_OK) return code;
        claimed->topic = link_index(life);
        claimed->word = slot_claim(r, words, count, top, claimed->topic, &claimed->slot);
        if (!claimed->word) return RTMW_NO_ENDPOINT_SLOT;
        if (topic_stands(r, life)) return RTMW_OK;
        slot_free(&words[claimed->slot], claimed->word);
    }
    return RTMW_DAMAGED;
}
