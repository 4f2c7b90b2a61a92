#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "power.h"

enum { MOST_WORDS = 16 };

static void run(char **words, int disk, const int in[2], const int out[2]) __attribute__((noreturn));
static void run(char **words, int disk, const int in[2], const int out[2])
{
    char number[16], *all[MOST_WORDS + 2] = {0};
    snprintf(number, sizeof number, "%d", disk);
    unsigned count = 0;
    while (words[count] && count < MOST_WORDS) {
        all[count] = words[count];
        count++;
    }
    all[count] = number;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    close(in[1]);
    close(out[0]);
    execvp(all[0], all);
    fprintf(stderr, "WRONG in the rig itself: %s: %s\n", all[0], strerror(errno));
    _exit(1);
}

void program_start(struct program *program, char **words, int disk)
{
    int in[2], out[2];
    if (pipe(in) < 0 || pipe(out) < 0) abort();
    pid_t child = fork();
    if (child < 0) abort();
    if (!child) run(words, disk, in, out);
    close(in[0]);
    close(out[1]);
    program->asked = fdopen(in[1], "w");
    program->said = fdopen(out[0], "r");
    if (!program->asked || !program->said) abort();
}

void program_ask(struct program *program, const char *what, uint64_t number)
{
    char line[4096];
    fprintf(program->asked, "%s %llu\n", what, (unsigned long long)number);
    fflush(program->asked);
    if (!fgets(line, sizeof line, program->said)) snprintf(line, sizeof line, "the program has ended\n");
    if (strcmp(line, "ok\n") == 0) return;
    fprintf(stderr, "WRONG: %s %llu: %s", what, (unsigned long long)number, line);
    exit(1);
}
