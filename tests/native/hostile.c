/* hostile: words by which waits tell that there is something to take, overwritten one at a time. A program that takes until
 * there is nothing, and waits until there is something, is told why it gets nothing, and does not go round for ever.
 * (tests/torture/fuzz overwrites any words at random, and seldom these.)
 */
#include "native.h"

enum { TRIES = 1000 };
#define MINUTE UINT64_C(60000000000)

static struct rtmw_region *mine;
static uint32_t domain;

static int received(rtmw_subscriber *s)
{
    rtmw_message m;
    int code = RTMW_EMPTY;
    for (int tries = 0; tries < TRIES && code == RTMW_EMPTY; tries++) {
        code = rtmw_take(s, &m);
        CHECK(code != RTMW_EMPTY || rtmw_wait(s, MINUTE, 0) == RTMW_OK);
    }
    return code;
}

/* The code that a program gets while the word is another one. */
static int told(rtmw_subscriber *s, uint64_t *word, uint64_t hostile)
{
    uint64_t was = exchange(word, hostile);
    int code = received(s);
    store_seq(word, was);
    return code;
}

static rtmw_subscriber *subscribe(struct rtmw_region *r)
{
    return subscribe_to(r, "hostile", (rtmw_subscriber_qos)RTMW_SUBSCRIBER_QOS);
}

/* As a sweeper leaves it that was stopped, or killed, when it had only begun. */
static void the_word_of_a_participant_says_that_it_is_swept_and_those_of_its_subscribers_do_not(void)
{
    struct rtmw_region *r = attach(domain);
    rtmw_subscriber *s = subscribe(r);
    CHECK(told(s, &r->participants[r->me].word, participant_in_state(r->my_word, LEAVING)) == RTMW_SWEPT);
    rtmw_subscriber_close(s);
    rtmw_detach(r);
}

static void the_word_of_a_subscriber_says_that_another_one_has_lapsed(void)
{
    rtmw_subscriber *s = subscribe(mine);
    uint64_t *word = &mine->subscriber_words[s->slot];
    uint64_t lapsed = slot_make(slot_generation(s->word) + 1, s->topic_index, mine->me, SLOT_LAPSED);
    CHECK(told(s, word, lapsed) == RTMW_DAMAGED);
    rtmw_subscriber_close(s);
}

static void the_cursor_of_a_subscriber_lies_before_what_it_has_taken(void)
{
    rtmw_message m;
    rtmw_publisher *p = publish_on(mine, "hostile", RTMW_ADAPTIVE, 0);
    rtmw_subscriber *s = subscribe(mine);
    CHECK(rtmw_publish(p, "x", 1, NULL) == RTMW_OK && rtmw_take(s, &m) == RTMW_OK);
    CHECK(rtmw_release(mine, m.descriptor) == RTMW_OK);
    CHECK(told(s, &s->block->cursor[0], link_make(0, NIL)) == RTMW_DAMAGED);
    rtmw_subscriber_close(s);
    rtmw_publisher_close(p);
}

int main(void)
{
    domain = domain_make(UINT64_C(1) << 20, 60);
    mine = attach(domain);
    the_word_of_a_participant_says_that_it_is_swept_and_those_of_its_subscribers_do_not();
    the_word_of_a_subscriber_says_that_another_one_has_lapsed();
    the_cursor_of_a_subscriber_lies_before_what_it_has_taken();
    books_must_balance(mine);
    rtmw_detach(mine);
    printf("each program was told, and the books balance\n");
    return 0;
}
