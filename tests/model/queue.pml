/* A band's queue as rtmw/shm/queue.c, descriptors.c and participants.c move it: append, evict, claim, take, and the sweep
 * after a process that dies anywhere. One step is one access to a shared word, as one atomic operation is there.
 *
 *   spin -a queue.pml && cc -O2 -DSAFETY -DNOREDUCE -DCOLLAPSE -o pan pan.c && ./pan -E
 *
 * FIRST and OTHER (messages of the first publisher and of each other one), PUBLISHERS, TAKES and DESCRIPTORS set the size.
 * One precaution is taken out with NO_GENERATION, NO_RECHECK, NO_RELEASE, NO_TAIL_CHECK, NO_QUEUED_FIRST, NO_HOLDERS,
 * NO_LINK_CHECK, NO_SWEEP or NO_LOOK_AHEAD: then there must be a violation. The order of memory is sequentially
 * consistent, as the operations are on which the argument rests; NO_RELEASE is what a weaker one would let be seen.
 *
 * With URGENT a message comes in a band above at any time, and the subscriber may drop TIMELY messages of this band, as
 * rtmw/shm/take.c does beyond depth: those with an odd payload.
 */
#ifndef PUBLISHERS
#define PUBLISHERS 1
#endif
#ifndef FIRST
#define FIRST 2
#endif
#ifndef OTHER
#define OTHER 1
#endif
#ifndef TAKES
#define TAKES 2
#endif
#ifndef DESCRIPTORS
#define DESCRIPTORS 3
#endif

#define NIL 15
#define NOBODY 7
#define SUBSCRIBER PUBLISHERS /* participants: the publishers, the subscriber, and who sweeps */
#define MOST 8
#define bit(who) (1 << (who))
#define is_alive (_pid != dead + 1) /* init is process 0, and runs the participants first */

#define FREE 0
#define LOANED 1
#define APPENDING 2
#define QUEUED 3

typedef Descriptor {
    byte generation, kind, owner; /* the state: one word */
    byte holders;
    byte next_generation, next;   /* one word; NIL: with its own generation */
    byte sequence, count; /* how many messages of the first publisher there are up to it: its standing */
    byte behind_generation, behind;
    byte payload
}

Descriptor d[DESCRIPTORS];
byte head_sequence = 1, head = 0;
byte tail_sequence = 1, tail = 0;
byte dead = NOBODY;
bool swept = false;
byte ended = 0; /* a bit a participant */
#ifdef URGENT
bool urgent = false; /* a message lies in the band above */
#endif

/* What the model knows and nobody in it. */
byte payload_of[MOST]; /* by sequence: what was linked; 0: nothing */
byte count_of[MOST];   /* by sequence: how many of these were the first publisher's */
byte linked = 1;

#define is_state(i, g, k, o) (d[i].generation == g && d[i].kind == k && d[i].owner == o)
#define set_state(i, g, k, o) d[i].generation = g; d[i].kind = k; d[i].owner = o

inline read_state(i)
{
    d_step { state_generation = d[i].generation; state_kind = d[i].kind; state_owner = d[i].owner }
}

/* CAS from the state that was read. */
inline cas_state(i, g, k, o)
{
    d_step {
        won = is_state(i, state_generation, state_kind, state_owner);
        if
        :: won -> set_state(i, g, k, o)
        :: else
        fi
    }
}

/* ---- publishing ---- */

/* Tail's successor is made QUEUED first; then tail names it. */
inline help_tail(to_generation, to)
{
#ifndef NO_QUEUED_FIRST
    read_state(to);
    if
    :: state_kind == APPENDING && state_generation == to_generation -> cas_state(to, state_generation, QUEUED, 0)
    :: else
    fi;
#endif
    d_step {
        if
        :: tail_sequence == at_sequence && tail == at -> tail_sequence = at_sequence + 1; tail = to
        :: else
        fi
    }
}

/* Head passes the oldest, never the last. */
inline evict()
{
    d_step { at_sequence = head_sequence; at = head };
    if
    :: at_sequence < tail_sequence ->
        next = d[at].next;
        d_step {
            if
            :: next != NIL && head_sequence == at_sequence && head == at -> head_sequence = at_sequence + 1; head = next
            :: else
            fi
        }
    :: else
    fi
}

/* Any descriptor that is free, or passed and not held. */
inline claim()
{
    if
    :: mine = 0
    :: mine = 1
    :: mine = 2
#if DESCRIPTORS > 3
    :: mine = 3
#endif
    fi;
    read_state(mine);
    won = false;
    if
    :: state_kind == FREE -> won = true
    :: state_kind == QUEUED ->
        at_sequence = d[mine].sequence;
        if
        :: head_sequence > at_sequence ->
#ifdef NO_HOLDERS
            won = true
#else
            won = (d[mine].holders == 0)
#endif
        :: else
        fi
    :: else
    fi;
    if
    :: won -> cas_state(mine, state_generation + 1, LOANED, me)
    :: else
    fi;
    if
    :: won ->
        my_generation = state_generation + 1;
        d_step { d[mine].next_generation = my_generation; d[mine].next = NIL }
    :: else
    fi
}

inline append()
{
    appended = false;
    do
    :: !appended ->
        d_step { at_sequence = tail_sequence; at = tail };
        d_step { next_generation = d[at].next_generation; next = d[at].next };
        sequence = d[at].sequence + 1;
        count = d[at].count + (me == 0 -> 1 : 0);
#ifndef NO_TAIL_CHECK
        if
        :: tail_sequence == at_sequence && tail == at
#else
        if
        :: true
#endif
            if
            :: next != NIL -> help_tail(next_generation, next)
            :: else ->
                d[mine].sequence = sequence;
                d[mine].count = count;
                d_step { d[mine].behind_generation = next_generation; d[mine].behind = at };
                d_step { set_state(mine, my_generation, APPENDING, me) };
                d_step {
                    won = (d[at].next == NIL);
#ifndef NO_GENERATION
                    won = won && d[at].next_generation == next_generation;
#endif
                    if
                    :: won ->
                        d[at].next_generation = my_generation;
                        d[at].next = mine;
                        payload_of[sequence] = word;
                        count_of[sequence] = count_of[sequence - 1] + (me == 0 -> 1 : 0);
                        linked++
                    :: else
                    fi
                };
                if
                :: won -> help_tail(my_generation, mine); appended = true
                :: else
                fi
            fi
        :: else
        fi
    :: else -> break
    od
}

proctype Publisher(byte me; byte messages) provided (is_alive)
{
    byte state_generation, state_kind, state_owner, at_sequence, at, next_generation, next, mine, my_generation, sequence,
        count, word;
    bool won, appended;
    do
    :: messages > 0 ->
        messages--;
        word = 1 + me * 4 + messages;
        evict();
        claim();
        if
        :: won ->
#ifndef NO_RELEASE
            d[mine].payload = word;
#endif
            append();
#ifdef NO_RELEASE
            d[mine].payload = word
#endif
        :: else /* no memory: this one is refused */
        fi
    :: else -> break
    od;
    ended = ended | bit(me)
}

/* ---- taking ---- */

/* My bit, and then that head has not passed what I expect. */
inline hold(i, expected)
{
    d[i].holders = d[i].holders | bit(SUBSCRIBER);
#ifndef NO_RECHECK
    held = head_sequence <= expected;
    if
    :: !held -> d[i].holders = d[i].holders & ~bit(SUBSCRIBER)
    :: else
    fi
#else
    held = true
#endif
}

#define is_whole(i, s) (d[i].sequence == (s) && d[i].payload == payload_of[s] && d[i].count == count_of[s])
#define is_timely(i) (d[i].payload & 1)

/* The message behind the cursor, which was read to be `at`; or the oldest, if that is passed over. */
inline hold_next()
{
    at_sequence = sequence + 1;
    hold(at, at_sequence);
    do
    :: held -> break
    :: else -> /* go on at head */
        d_step { at_sequence = head_sequence; at = head };
        hold(at, at_sequence)
    od;
    assert(at_sequence > sequence);
    assert(at_sequence == sequence + 1 || head_sequence >= at_sequence); /* what lies between gave way */
    assert(is_whole(at, at_sequence));
    assert(is_whole(cursor, sequence)) /* held all the while */
}

inline move_cursor()
{
    d[cursor].holders = d[cursor].holders & ~bit(SUBSCRIBER);
    cursor = at;
    sequence = at_sequence
}

inline deliver()
{
#ifdef URGENT
    assert(!was_urgent); /* before this take began */
#endif
    move_cursor()
}

/* What the next message is, is a hint: it is looked at again ahead of the cursor, which stays before what is not dropped. */
inline drop_beyond_depth()
{
    at = d[cursor].next;
    if
    :: at == NIL -> skip
    :: at != NIL -> skip /* no more are unread than it wants */
    :: at != NIL && is_timely(at) ->
        hold_next();
        if
        :: is_timely(at) -> move_cursor()
        :: else ->
#ifdef NO_LOOK_AHEAD
            deliver()
#else
            d[at].holders = d[at].holders & ~bit(SUBSCRIBER)
#endif
        fi
    fi
}

inline take()
{
    at = d[cursor].next;
    if
    :: at == NIL -> skip
    :: else ->
        hold_next();
        deliver()
    fi
}

proctype Subscriber(byte takes) provided (is_alive)
{
    byte cursor = 0, sequence = 1, at_sequence, at;
    bool held;
#ifdef URGENT
    bool was_urgent;
#endif
    do
    :: takes > 0 ->
        takes--;
#ifdef URGENT
        was_urgent = urgent;
        drop_beyond_depth();
        if
        :: urgent -> urgent = false /* taken */
        :: else -> take()
        fi
#else
        take()
#endif
    :: else -> break
    od;
    assert(is_whole(cursor, sequence));
    d[cursor].holders = d[cursor].holders & ~bit(SUBSCRIBER);
    ended = ended | bit(SUBSCRIBER)
}

#ifdef URGENT
proctype Urgent() { urgent = true }
#endif

/* ---- death, and what comes after it ---- */

proctype Reaper()
{
    byte who;
    select (who: 0 .. PUBLISHERS);
    dead = who
}

inline sweep(i)
{
    read_state(i);
    if
    :: state_owner == dead && state_kind == LOANED -> cas_state(i, state_generation + 1, FREE, 0)
    :: state_owner == dead && state_kind == APPENDING ->
        d_step { behind_generation = d[i].behind_generation; behind = d[i].behind };
        d_step { named_generation = d[behind].next_generation; named = d[behind].next };
        is_linked = (named == i && named_generation == state_generation && d[behind].generation == behind_generation);
#ifdef NO_LINK_CHECK
        is_linked = false;
#endif
        if
        :: is_linked -> cas_state(i, state_generation, QUEUED, 0)
        :: else -> cas_state(i, state_generation + 1, FREE, 0)
        fi
    :: else
    fi
}

proctype Sweeper()
{
    byte state_generation, state_kind, state_owner, behind_generation, behind, named_generation, named, i = 0;
    bool won, is_linked;
    dead != NOBODY;
    do
    :: i < DESCRIPTORS ->
        sweep(i);
#ifndef NO_SWEEP
        d[i].holders = d[i].holders & ~bit(dead);
#endif
        i++
    :: else -> break
    od;
    swept = true
}

/* ---- what must have come of it ---- */

/* All that was linked lies in the queue in its order, and everything else is free to be claimed. */
proctype Judge()
{
    byte at, sequence, in_queue = 0, i;
    d_step {
        swept && (ended | (dead == NOBODY -> 0 : bit(dead))) == bit(PUBLISHERS + 1) - 1;
        at = head;
        sequence = head_sequence;
        do
        :: at != NIL ->
            assert(d[at].sequence == sequence);
            assert(d[at].payload == payload_of[sequence]);
            assert(d[at].count == count_of[sequence]);
            assert(d[at].kind == QUEUED);
            in_queue = in_queue | bit(at);
            sequence++;
            at = d[at].next
        :: else -> break
        od;
        assert(sequence == linked + 1);
        i = 0;
        do
        :: i < DESCRIPTORS ->
            assert(d[i].holders == 0);
            assert((in_queue & bit(i)) || d[i].kind == FREE || (d[i].kind == QUEUED && d[i].sequence < head_sequence));
            i++
        :: else -> break
        od
    }
}

init
{
    byte i;
    atomic {
        do
        :: i < DESCRIPTORS -> d[i].next = NIL; i++
        :: else -> break
        od;
        d[0].kind = QUEUED;
        d[0].sequence = 1;
        d[0].payload = 99;
        d[0].holders = bit(SUBSCRIBER);
        payload_of[1] = 99;
        run Publisher(0, FIRST);
#if PUBLISHERS > 1
        run Publisher(1, OTHER);
#endif
#if PUBLISHERS > 2
        run Publisher(2, OTHER);
#endif
        run Subscriber(TAKES);
#ifdef URGENT
        run Urgent();
#endif
#ifdef NO_DEATH
        swept = true;
#else
        run Reaper();
        run Sweeper();
#endif
        run Judge()
    }
}
