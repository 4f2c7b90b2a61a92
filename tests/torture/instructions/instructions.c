/* A kill, or a stop, at every machine instruction of a call.
 *
 *   instructions STARTS CALL kill|stop MOST        MOST: so many of the instructions, evenly spread; 0: all
 *   instructions STARTS                            lists the calls
 *
 * One victim first makes the call undisturbed, and its instructions are listed. Then, for each of them, a new victim is
 * prepared and killed or stopped before that instruction, and the last one when the call has returned. Of a call with
 * more than WHOLE instructions, which goes round long loops, each instruction is tried the first and the last time that
 * it is reached, for what lies between repeats one of these; and at most LONG_CALL of them, evenly spread.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum { WHOLE = 10000, LONG_CALL = 1000, LIMIT_S = 60, HANGS_S = 60, NO_MORE = -1 };

static const struct call *call;
static struct board *board;
static pid_t judge;
static bool well;

static void say_where(void)
{
    char command[300];
    if (getpid() != judge || well) return;
    const struct walk *walk = &board->walk;
    uint32_t at = walk->count && walk->count <= STEPS_MOST ? walk->at[walk->count - 1] : 0;
    const char *what = walk->number == SIGKILL ? "killed" : "stopped";
    fprintf(stderr, "%s: %s at instruction %u, ", call->name, what, walk->count);
    fflush(stderr);
    snprintf(command, sizeof command, "addr2line -fspe /proc/%d/exe %llx >&2", getpid(),
             (unsigned long long)steps_address(at));
    if (system(command) != 0) fprintf(stderr, "at %llx\n", (unsigned long long)steps_address(at));
}

static void somebody_hangs(int number)
{
    (void)number;
    fprintf(stderr, "somebody waits, or goes round for ever\n");
    exit(1);
}

static void live(struct victim *v)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (call->prepare) {
        v->region = attach(v->domain);
        call->prepare(v);
    }
    raise(SIGSTOP);
    steps_begin(&board->walk);
    call->act(v);
    steps_end();
    call->finish(v);
    exit(0);
}

static int wait_for(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, WUNTRACED) == pid);
    return status;
}

/* A victim that gets the signal before instruction `last` (0: none), or when its call has returned. */
static pid_t begin_victim(struct witness *w, uint32_t last, int number)
{
    struct victim v = {.board = board, .domain = w->domain, .life = w->life + 1};
    witness_meets(w, w->life + 1);
    alarm(HANGS_S);
    board->walk.count = 0;
    board->walk.last = last;
    board->walk.number = number;
    board->walk.returned = false;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) live(&v);
    CHECK(WIFSTOPPED(wait_for(pid)), "the victim could not be prepared");
    if (call->before) call->before(w);
    kill(pid, SIGCONT);
    return pid;
}

static void must_end_well(pid_t pid)
{
    int status = wait_for(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the victim did not go on: status %x", (unsigned)status);
}

static void check_told(struct witness *w)
{
    CHECK(!board->walk.returned || w->victims == board->attempted, "the call had returned, and %u of %u messages came",
          w->victims, board->attempted);
}

/* After a sweep, and before anybody has done anything else. */
static void books_must_hold(struct rtmw_region *r)
{
    static struct books books;
    static uint8_t marks[1 << 16];
    uint32_t swept, freed;
    books_repair(r, &swept, &freed);
    books_examine(r, &books, marks);
    CHECK(books.problems == 0, "%s", books.problem[0]);
}

static void kill_one(struct witness *w, uint32_t last, bool swept_first)
{
    int status = wait_for(begin_victim(w, last, SIGKILL));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the victim ended: status %x", (unsigned)status);
    if (swept_first) books_must_hold(w->region);
    others_go_on(w);
    check_told(w);
    books_must_close(w);
}

/* The first one dies when its call has returned; its instructions are listed. */
static uint32_t record(struct witness *w)
{
    kill_one(w, UINT32_MAX, false);
    CHECK(board->walk.returned && board->walk.count <= STEPS_MOST, "%u instructions", board->walk.count);
    return board->walk.count;
}

/* The participant of a process, or NULL. */
static struct participant *participant_of(struct rtmw_region *r, pid_t pid)
{
    for (uint32_t slot = 0; slot < PARTICIPANTS; slot++)
        if (participant_state_of(r->participants[slot].word) != ABSENT &&
            participant_pid(r->participants[slot].word) == (uint32_t)pid)
            return &r->participants[slot];
    return NULL;
}

/* Who sweeps after the dead leaves it alone, and the books know what it is at. */
static void must_be_respected(struct rtmw_region *r, pid_t pid)
{
    struct participant *p = participant_of(r, pid);
    uint64_t word = p ? p->word : 0;
    books_must_hold(r);
    CHECK(!p || p->word == word, "it was swept after while it was stopped");
}

/* Stopped is not dead: nobody waits for it, and when it goes on it finds its call as it left it. */
static void stop_one(struct witness *w, uint32_t last)
{
    pid_t pid = begin_victim(w, last, SIGSTOP);
    int status = wait_for(pid);
    CHECK(WIFSTOPPED(status), "the victim ended: status %x", (unsigned)status);
    others_go_on(w);
    check_told(w);
    must_be_respected(w->region, pid);
    kill(pid, SIGCONT);
    must_end_well(pid);
    others_go_on(w);
    CHECK(w->victims == board->attempted, "%u of %u messages came", w->victims, board->attempted);
    books_must_close(w);
}

/* Which instructions: `chosen` gets their numbers, counted from 1, and the one behind the last. */
static uint32_t choose(uint32_t count, uint32_t most, uint32_t *chosen)
{
    uint32_t *visits = calloc(steps_bytes(), sizeof *visits), *seen = calloc(steps_bytes(), sizeof *seen), found = 0;
    for (uint32_t i = 0; i < count; i++) visits[board->walk.at[i]]++;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = board->walk.at[i], visit = ++seen[at];
        if (count <= WHOLE || visit == 1 || visit == visits[at]) chosen[found++] = i + 1;
    }
    chosen[found++] = count + 1;
    free(visits);
    free(seen);
    if (!most && count > WHOLE) most = LONG_CALL;
    for (uint32_t i = 0; most > 1 && found > most && i < most; i++)
        chosen[i] = chosen[(uint64_t)i * (found - 1) / (most - 1)];
    return most && found > most ? most : found;
}

/* What became of a round, in memory that outlives it. */
struct round {
    uint32_t from, to; /* numbers of the choice; `to` of the last round: NO_MORE */
    uint32_t instructions, victims;
};

/* Killed twice: once the others find what it left, and once who sweeps after it. In a long call in turn. */
static void try_one(struct witness *w, uint32_t last, int number, struct round *round)
{
    bool is_long = round->instructions > WHOLE;
    round->victims++;
    if (number == SIGSTOP) {
        stop_one(w, last);
        return;
    }
    kill_one(w, last, is_long && round->victims % 2);
    if (is_long) return;
    kill_one(w, last, true);
    round->victims++;
}

/* Victims from `from` on, as many as one domain can have. */
static void play(struct round *round, int number, uint32_t most)
{
    static uint32_t chosen[STEPS_MOST + 1];
    struct witness w = {.board = board, .domain = domain_make(POOL, LIMIT_S)};
    signal(SIGALRM, somebody_hangs);
    witness_open(&w);
    round->instructions = record(&w);
    uint32_t count = choose(round->instructions, most, chosen), to = count;
    if (call->lives && round->from + call->lives < to) to = round->from + call->lives;
    for (uint32_t i = round->from; i < to; i++) try_one(&w, chosen[i], number, round);
    witness_close(&w);
    round->to = to < count ? to : (uint32_t)NO_MORE;
}

/* A domain of its own for each round: names of topics stay for as long as their domain. */
static void play_in_a_process(struct round *round, int number, uint32_t most)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        judge = getpid();
        play(round, number, most);
        well = true;
        exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "%s: status %x", call->name, (unsigned)status);
}

static void *shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

int main(int count, char **arguments)
{
    CHECK(count == 2 || count == 5, "usage: instructions STARTS [CALL kill|stop MOST]");
    if (count == 2)
        for (call = calls; call->name; call++) puts(call->name);
    if (count == 2) return 0;
    steps_load(arguments[1]);
    for (call = calls; call->name && strcmp(call->name, arguments[2]) != 0; call++) {}
    CHECK(call->name, "there is no call %s", arguments[2]);
    int number = strcmp(arguments[3], "kill") == 0 ? SIGKILL : SIGSTOP;
    struct round *round = shared(sizeof *round);
    board = shared(sizeof *board);
    atexit(say_where);
    for (; round->to != (uint32_t)NO_MORE; round->from = round->to)
        play_in_a_process(round, number, (uint32_t)atoi(arguments[4]));
    printf("{\"instructions\": %u, \"victims\": %u}\n", round->instructions, round->victims);
    return 0;
}
