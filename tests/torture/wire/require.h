/* What programs of a rig hold to be true. */
#ifndef REQUIRE_H
#define REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

/* The program ends, and says why. */
#define REQUIRE(condition, ...)                                        \
    do {                                                               \
        if (!(condition)) {                                            \
            fprintf(stderr, "fuzz: " __VA_ARGS__);                     \
            fprintf(stderr, " (%s, line %d)\n", #condition, __LINE__); \
            abort();                                                   \
        }                                                              \
    } while (0)

#endif
