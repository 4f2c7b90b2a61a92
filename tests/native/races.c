/* races [part of a name]: runs every race, or those whose name contains the text. Exit status 1: something FORBIDDEN. */
#include <stdio.h>
#include <string.h>

#include "races.h"

int main(int count, char **arguments)
{
    const struct race *const tables[] = {queue_races, block_races, wait_races, membership_races, sweep_races, empty_races, inherit_races,
                                         trace_races, retire_races, hint_races, within_races, parked_races,
                                         abandoned_races, band_races, type_races};
    const char *wanted = count > 1 ? arguments[1] : "";
    uint32_t ran = 0, failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct race *race = tables[t]; race->name; race++) {
            if (!strstr(race->name, wanted)) continue;
            ran++;
            failed += !explore(race);
        }
    if (strstr("death", wanted)) {
        ran++;
        failed += !die_at_every_step();
    }
    printf("%u races, %u failed\n", ran, failed);
    return failed || !ran;
}
