/* The rig: a victim that is killed or stopped in the middle of a call, and a witness that must not be harmed.
 *
 *   instructions.c   starts a victim for each instruction of a call, and judges      steps.c   brings it there
 *   calls.c          what victims do                                                witness.c everybody else
 */
#ifndef RTMW_RIG_H
#define RTMW_RIG_H

#include "native.h"
#include "steps.h"

enum { WITNESS = 1, VICTIM = 2, KEPT = 8, LOANS = 3, POOL = 1024 * 1024, PATIENCE_S = 30 };
#define TOPIC "torture"
#define LARGE "torture/large"

/* In memory that outlives a victim. */
struct board {
    struct walk walk;
    uint32_t attempted; /* RELIABLE messages of this victim that it began to publish */
    uint32_t told;      /* that it was told are published */
};

struct victim {
    struct board *board;
    uint32_t domain, life; /* life: tells victims apart */
    struct rtmw_region *region;
    rtmw_publisher *publisher;
    rtmw_subscriber *subscriber;
    rtmw_loan loan[LOANS];
    rtmw_message kept[KEPT];
    uint32_t keeps;
    uint64_t first; /* number of the first message of the witness that it came to; 0: none yet */
    uint64_t next;  /* and of the next */
};

struct witness {
    struct board *board;
    uint32_t domain, life;
    struct rtmw_region *region;
    rtmw_publisher *publisher, *large;
    rtmw_subscriber *reliable, *adaptive;
    uint64_t published, came; /* its own messages */
    uint64_t began;           /* sequence from which the adaptive one counts */
    uint32_t victims;         /* messages of the present victim that came */
};

struct call {
    const char *name;
    void (*prepare)(struct victim *);
    void (*before)(struct witness *); /* the witness' part, when the victim is prepared */
    void (*act)(struct victim *);     /* in this one it dies */
    void (*finish)(struct victim *);  /* what it finds when it was only stopped; then it leaves in peace */
    uint32_t lives;                   /* instructions that are tried in one domain: names stay. 0: all */
};

extern const struct call calls[];

/* witness.c */
void witness_open(struct witness *);
void witness_meets(struct witness *, uint32_t life); /* the next victim */
void witness_publish(struct witness *, uint64_t size);
void witness_take(struct witness *); /* all there is, and checks it */
void others_go_on(struct witness *);
void books_must_close(struct witness *); /* nothing of any victim is left */
void witness_close(struct witness *);    /* and the whole pool can be had */

#endif
