/* What the baselines share: a clock, shared memory, two processes each on its processor, and the figures on stdout. */
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "atomics.h"

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void *shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) exit(1);
    return memory;
}

/* cpu -1: wherever the kernel likes. */
static inline void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    if (cpu >= 0 && sched_setaffinity(0, sizeof set, &set) != 0) exit(1);
}

static inline pid_t other_process(int cpu)
{
    pid_t child = fork();
    if (child < 0) exit(1);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(cpu);
    }
    return child;
}

static inline int argument(int argc, char **argv, int at, int otherwise)
{
    return argc > at ? atoi(argv[at]) : otherwise;
}

/* A file of so many bytes, which lie on the disk: a write into it changes no metadata. */
static inline int filled(const char *name, size_t size)
{
    enum { AT_ONCE = 1 << 20 };
    char *zeros = calloc(1, AT_ONCE);
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || zeros == NULL) exit(1);
    for (size_t at = 0; at < size; at += AT_ONCE)
        if (pwrite(file, zeros, AT_ONCE, (off_t)at) != AT_ONCE) exit(1);
    if (fsync(file)) exit(1);
    free(zeros);
    return file;
}

/* Two words that two processes change in turn, on lines of their own. */
typedef struct {
    _Alignas(64) uint32_t ping;
    _Alignas(64) uint32_t pong;
} Words;
