/* The peer that link_fuzz.c has: what it sends, by the rules and against them, as the input decides. */
#ifndef LINK_PEER_H
#define LINK_PEER_H

#include "link_stage.h"

enum {
    RELIABLE_IN = 1,
    LIMITED_IN = 2,
    CLOSED_IN = 3, /* routes: it was opened and is closed */
    RELIABLE_OUT = 4,
    TIMELY_OUT = 5,
    CLOSED_OUT = 6,
    WINDOW = 20000,
    CEILING_PRIORITY = 4,
    CEILING_SIZE = 3000,
    NUMBER_MOST = 1 << 20,
    CONTROLS_READ = 40, /* acts between two looks of Python */
};

extern const uint8_t *choices;
extern size_t choices_left;
uint32_t choose(uint32_t below); /* 0, once nothing is left of the input */

extern struct side side;   /* the line that it attacks */
extern int peer[CHANNELS]; /* its ends of the connections; of the twin -1: there is none */
extern bool is_made_up;    /* the bytes of messages follow from their numbers */
extern bool is_odd;        /* what it has sent last means nothing */
extern const char *crime;  /* the rule that it has broken, which the line is to see; NULL: none */
extern uint64_t numbers[CLOSED_IN + 1][BANDS], controls; /* that it has sent */

void forget_peer(void); /* its connections are new */
void greet(void);       /* begins as an honest one */
void transmit(int channel, const uint8_t *bytes, size_t size);
void send_something(uint32_t what); /* below SENDINGS: a frame of a kind */
void more(void);
void odd(void);
void join_twin(void);
void read_what_is_said(void); /* by the line: frames, but for the last one, which may have come in part */
enum { SENDINGS = 17 };

#endif
