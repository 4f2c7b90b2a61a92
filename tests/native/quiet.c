/* quiet: publishing and taking, on both sides and in every way, make no system call, allocate nothing, and meet no page
 * that is not there. Sleepers to wake, and a pool in which nothing is free, are what the calls are left for.
 *
 *   calls    a seccomp filter turns each system call of the window into a signal
 *   memory   malloc and its kin are counted (linked with --wrap)
 *   faults   the kernel's count of page faults; other causes than these calls are possible, so one quiet window of ten counts
 *
 * Exit status: 0 quiet, 1 not, 77 this machine does not let it be seen.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "native.h"

enum { UNSEEN = 77, TURNS = 3000, WINDOWS = 10, KINDS = 3 };

static struct rtmw_region *region;
static rtmw_publisher *publisher[KINDS];
static rtmw_subscriber *subscriber[KINDS], *slow[KINDS];
static uint8_t data[8 * PAGE];

static volatile bool counting;
static unsigned allocations;

void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void __real_free(void *);
void *__wrap_malloc(size_t size) { return allocations += counting, __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return allocations += counting, __real_calloc(count, size); }
void *__wrap_realloc(void *block, size_t size) { return allocations += counting, __real_realloc(block, size); }
void __wrap_free(void *block)
{
    allocations += counting;
    __real_free(block);
}

/* One topic a reliability, each with a subscriber that keeps up and one that drops the oldest. */
static void open_all(uint32_t domain)
{
    static const char *const topics[KINDS] = {"timely", "adaptive", "reliable"};
    region = attach(domain);
    for (int kind = 0; kind < KINDS; kind++) {
        rtmw_publisher_qos offer = {(rtmw_reliability)kind, 0, 16, 2, 0};
        rtmw_subscriber_qos ask = {(rtmw_reliability)kind, 64, 0, 0, UINT64_C(3600000000000), 0};
        rtmw_subscriber_qos drop = {RTMW_TIMELY, 4, 0, 1000, 0, 0};
        CHECK(rtmw_publisher_open(region, topics[kind], NULL, &offer, &publisher[kind]) == RTMW_OK);
        CHECK(rtmw_subscriber_open(region, topics[kind], NULL, &ask, &subscriber[kind]) == RTMW_OK);
        CHECK(rtmw_subscriber_open(region, topics[kind], NULL, &drop, &slow[kind]) == RTMW_OK);
    }
}

static void take_all(rtmw_subscriber *s)
{
    rtmw_message message;
    while (rtmw_take(s, &message) == RTMW_OK) {
        memcpy(data, message.data, message.size < 64 ? message.size : 64);
        rtmw_release(region, message.descriptor);
    }
}

/* All that a program does while it is at work. */
static void turn(uint32_t number)
{
    static const uint64_t sizes[] = {64, 1, 128, 1000, PAGE, 5 * PAGE};
    rtmw_message_qos urgent = {.priority = 7}, expired = {.priority = -1, .lifetime_ns = 1};
    rtmw_loan loan;
    for (int kind = 0; kind < KINDS; kind++) {
        uint64_t size = sizes[number % (sizeof sizes / sizeof *sizes)];
        CHECK(rtmw_publish(publisher[kind], data, size, number % 5 ? NULL : &urgent) == RTMW_OK);
        CHECK(rtmw_publish(publisher[kind], data, 16, &expired) == RTMW_OK);
        CHECK(rtmw_loan_take(publisher[kind], size, &loan) == RTMW_OK);
        memset(loan.data, (int)number, loan.size);
        if (number % 3)
            CHECK(rtmw_loan_publish(publisher[kind], &loan, NULL) == RTMW_OK);
        else
            rtmw_loan_drop(publisher[kind], &loan);
        if (number % 4 == 0) take_all(subscriber[kind]);
        if (number % 50 == 0) take_all(slow[kind]);
    }
}

static void window(void)
{
    for (uint32_t number = 0; number < TURNS; number++) turn(number);
}

/* ---- system calls ---- */

static void caught(int signal, siginfo_t *about, void *context)
{
    char text[64];
    (void)signal, (void)context;
    if (about->si_syscall == SYS_clock_gettime) _exit(UNSEEN); /* this machine's clock cannot be read otherwise */
    int length = snprintf(text, sizeof text, "system call %d in the window\n", about->si_syscall);
    _exit(write(STDERR_FILENO, text, (size_t)length) == length ? 1 : 2);
}

#define ALLOW(number)                                                                                           \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* What the handler and the end need is let through; the core writes to no file, and ends no process. */
static bool forbid_system_calls(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_write),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int watch_calls(void)
{
    window();
    if (!forbid_system_calls()) return UNSEEN;
    window();
    return 0;
}

/* Does the watch see one? */
static int watch_a_call(void)
{
    if (!forbid_system_calls()) return UNSEEN;
    getppid();
    return 0;
}

/* ---- memory and page faults ---- */

static int watch_memory(void)
{
    free(malloc(1));
    counting = true;
    window();
    counting = false;
    if (allocations) fprintf(stderr, "%u allocations in the window\n", allocations);
    return allocations != 0;
}

static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static int watch_faults(void)
{
    int locked = rtmw_lock_memory(region);
    if (locked != RTMW_OK && (errno == ENOMEM || errno == EPERM)) return UNSEEN;
    long fewest = -1;
    for (int i = 0; i < WINDOWS && fewest != 0; i++) {
        long before = faults();
        window();
        long met = faults() - before;
        if (fewest < 0 || met < fewest) fewest = met;
    }
    if (fewest) fprintf(stderr, "at least %ld page faults in each window\n", fewest);
    return fewest != 0;
}

/* In a process of its own: a filter stays. */
static int watched(const char *what, uint32_t domain, int (*watch)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        open_all(domain);
        _exit(watch());
    }
    CHECK(waitpid(child, &status, 0) == child);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    printf("%s: %s\n", what, code == 0 ? "none" : code == UNSEEN ? "cannot be seen here" : "FOUND");
    return code;
}

int main(int count, char **arguments)
{
    uint32_t domain = domain_make(UINT64_C(8) << 20, 100);
    const char *wanted = count > 1 ? arguments[1] : "";
    if (strcmp(wanted, "calls") == 0) return watched("system calls", domain, watch_calls);
    if (strcmp(wanted, "memory") == 0) return watched("allocations", domain, watch_memory);
    if (strcmp(wanted, "faults") == 0) return watched("page faults", domain, watch_faults);
    if (strcmp(wanted, "seen") == 0) return watched("a system call", domain, watch_a_call);
    fprintf(stderr, "usage: quiet calls | memory | faults | seen\n");
    return 2;
}
