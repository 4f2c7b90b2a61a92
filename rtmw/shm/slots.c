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

/* Topic and type may give their slots back after they were found and before the endpoint names them: then all over again. */
int endpoint_claim(struct rtmw_region *r, const struct wanted *wanted, struct claimed *claimed)
{
    uint64_t *words = wanted->publishes ? r->publisher_words : r->subscriber_words, topic, type;
    uint32_t count = wanted->publishes ? r->header->publishers : r->header->subscribers;
    uint32_t *top = wanted->publishes ? &r->hints->publishers_top : &r->hints->subscribers_top;
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        int code = type_open(r, wanted->type, &type);
        if (code == RTMW_OK) code = topic_open(r, wanted->topic, &topic);
        if (code != RTMW_OK) return code;
        *claimed = (struct claimed){.topic = link_index(topic), .type = link_index(type)};
        claimed->word = slot_claim(r, words, r->serves_peers ? first_kept_endpoint(count) : count, top, claimed->topic,
                                   &claimed->slot);
        if (!claimed->word) return RTMW_NO_ENDPOINT_SLOT;
        store_seq(wanted->publishes ? &r->publishers[claimed->slot].type : &r->subscribers[claimed->slot].type,
                  claimed->type);
        if (topic_stands(r, topic) && type_stands(r, type)) return RTMW_OK; /* pairs with retire_topics, retire_types */
        slot_free(&words[claimed->slot], claimed->word);
    }
    return RTMW_DAMAGED;
}
