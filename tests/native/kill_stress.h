/* Roles of kill_stress: kill_roles.c plays them, kill_stress.c starts, kills and judges. */
#ifndef RTMW_KILL_STRESS_H
#define RTMW_KILL_STRESS_H

#include "native.h"

enum { INSTANCES = 1 << 15, SURVIVORS = 4 };

/* In anonymous shared memory: what a process was told before it was killed outlives it. */
struct scoreboard {
    uint32_t told[INSTANCES];       /* by publisher: how many of its messages it knows to be published */
    uint64_t progress[SURVIVORS];   /* by survivor */
    uint32_t stop, publishing;      /* of the survivors */
};

struct life {
    struct scoreboard *board;
    uint32_t domain, instance;      /* instances below SURVIVORS are never killed */
    uint64_t random;
};

/* Never killed. The subscriber is RELIABLE: nothing that a publisher was told is published may be missing to it. */
void survive_publishing(struct life *);
void survive_subscribing(struct life *);
void survive_sipping(struct life *);     /* an ADAPTIVE subscriber that comes and goes */
/* To be killed, whatever they do. */
void live_dangerously(struct life *);

#endif
