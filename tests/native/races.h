/* The tables of races, one a file; each ends with a NULL name. */
#ifndef RTMW_RACES_H
#define RTMW_RACES_H

#include "explore.h"

extern const struct race queue_races[], block_races[], wait_races[], membership_races[], empty_races[],
    inherit_races[], sweep_races[], trace_races[], retire_races[], hint_races[], within_races[], parked_races[],
    abandoned_races[], band_races[], type_races[];
bool die_at_every_step(void);   /* race_death.c: prints what it did; false: something was lost */
bool stop_at_every_step(void);  /* race_hints.c: likewise, of who is stopped for good; nobody sweeps after it */
bool die_retiring(void);        /* race_retire.c: the same, of topics that give their slots back */
bool die_retiring_types(void);  /* race_types.c: the same, of types */
/* race_retire.c: the rest goes on without who dies in `act`, before each of its steps. false: it cannot */
bool die_beside(const char *name, void (*prepare)(void), void (*act)(void), void (*go_on)(void));
bool die_choosing(void);        /* race_bands.c: the same, of who takes from several bands */

#endif
