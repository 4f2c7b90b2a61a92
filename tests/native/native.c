/* See native.h. */
#undef mmap /* here they are the real ones; see native_mmap */
#undef munmap
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "native.h"

static char control_name[64], blocks_name[64], unfinished_name[64];
static pid_t maker;

void fail(const char *file, int line, const char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: process %d: not so: %s", file, line, getpid(), what);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static struct {
    ino_t inode;
    void *base;
    uint32_t uses;
} mapped[4];

/* The core is compiled with -Dmmap=native_mmap: participants of one process share one mapping. ThreadSanitizer knows
 * memory by its address, and would see nothing of what passes between two mappings of the same pages. */
void *native_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    struct stat about;
    if (fd < 0 || fstat(fd, &about) != 0) return mmap(at, size, protection, flags, fd, offset);
    for (int i = 0; i < 4; i++)
        if (mapped[i].uses && mapped[i].inode == about.st_ino) return mapped[i].uses++, mapped[i].base;
    void *base = mmap(at, size, protection, flags, fd, offset);
    for (int i = 0; base != MAP_FAILED && i < 4; i++) {
        if (mapped[i].uses) continue;
        mapped[i].inode = about.st_ino;
        mapped[i].base = base;
        mapped[i].uses = 1;
        break;
    }
    return base;
}

int native_munmap(void *base, size_t size)
{
    for (int i = 0; i < 4; i++)
        if (mapped[i].uses && mapped[i].base == base) return --mapped[i].uses ? 0 : munmap(base, size);
    return munmap(base, size);
}

static void unlink_names(void)
{
    if (getpid() != maker) return;
    shm_unlink(unfinished_name);
    shm_unlink(control_name);
    shm_unlink(blocks_name);
}

static void end_by_signal(int number)
{
    static const char told[] = "ended by a signal or by its time limit\n";
    unlink_names();
    if (write(STDERR_FILENO, told, sizeof told - 1) < 0) _exit(3);
    _exit(number == SIGALRM ? 2 : 3);
}

/* Numbers that people and the Python tests use end at 232. */
uint32_t domain_make(uint64_t pool_bytes, uint32_t seconds)
{
    uint32_t domain = 1000000u + (uint32_t)getpid();
    uint64_t nonce = monotonic_ns();
    maker = getpid();
    snprintf(control_name, sizeof control_name, REGION_CONTROL, domain);
    snprintf(blocks_name, sizeof blocks_name, REGION_BLOCKS, domain, (unsigned long long)nonce);
    snprintf(unfinished_name, sizeof unfinished_name, REGION_UNFINISHED, domain, maker, (unsigned long long)nonce);
    atexit(unlink_names);
    signal(SIGALRM, end_by_signal);
    signal(SIGTERM, end_by_signal);
    signal(SIGINT, end_by_signal);
    alarm(seconds);
    int code = region_create(domain, &(struct pool){(pool_bytes + PAGE - 1) / PAGE * PAGE, RTMW_RESERVE, nonce});
    CHECK(code == RTMW_OK, "%s", rtmw_describe(code));
    return domain;
}

struct rtmw_region *attach(uint32_t domain)
{
    struct rtmw_region *r = NULL;
    int code = rtmw_attach(domain, &r);
    CHECK(code == RTMW_OK, "%s", rtmw_describe(code));
    return r;
}

rtmw_publisher *publish_on(struct rtmw_region *r, const char *topic, rtmw_reliability reliability, uint8_t priority)
{
    rtmw_publisher_qos qos = RTMW_PUBLISHER_QOS;
    rtmw_publisher *publisher;
    qos.reliability = reliability;
    qos.priority = priority;
    CHECK(rtmw_publisher_open(r, topic, NULL, &qos, &publisher) == RTMW_OK);
    return publisher;
}

rtmw_subscriber *subscribe_to(struct rtmw_region *r, const char *topic, rtmw_subscriber_qos qos)
{
    rtmw_subscriber *subscriber;
    CHECK(rtmw_subscriber_open(r, topic, NULL, &qos, &subscriber) == RTMW_OK);
    return subscriber;
}

void alone(void (*work)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        work();
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

uint64_t random_next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint32_t random_below(uint64_t *state, uint32_t limit) { return (uint32_t)((random_next(state) >> 32) * limit >> 32); }

static uint64_t first_word(struct origin o)
{
    return (uint64_t)o.publisher << 56 | (uint64_t)o.topic << 52 | (uint64_t)o.band << 48 | o.number;
}

static uint64_t word_at(struct origin o, uint64_t i)
{
    return i == 0 ? first_word(o) : first_word(o) * UINT64_C(0x9E3779B97F4A7C15) + i * UINT64_C(0xD1B54A32D192ED03);
}

void payload_write(void *data, uint64_t size, struct origin o)
{
    for (uint64_t at = 0; at < size; at += 8) {
        uint64_t word = word_at(o, at / 8);
        memcpy((uint8_t *)data + at, &word, size - at < 8 ? size - at : 8);
    }
}

bool payload_is(const void *data, uint64_t size, struct origin o)
{
    for (uint64_t at = 0; at < size; at += 8) {
        uint64_t word = word_at(o, at / 8);
        if (memcmp((const uint8_t *)data + at, &word, size - at < 8 ? size - at : 8) != 0) return false;
    }
    return true;
}

bool payload_origin(const void *data, uint64_t size, struct origin *o)
{
    uint64_t word;
    if (size < sizeof word) return false;
    memcpy(&word, data, sizeof word);
    *o = (struct origin){(uint32_t)(word >> 56), (uint32_t)(word >> 52) & 15, (uint32_t)(word >> 48) & 15,
                         word & ((UINT64_C(1) << 48) - 1)};
    return true;
}

void books_must_balance(struct rtmw_region *r)
{
    static struct books books;
    uint32_t swept, freed, unused = 0, in_queues = 0;
    uint8_t *marks = calloc(1, books_marks(r));
    books_repair(r, &swept, &freed);
    books_examine(r, &books, marks);
    for (uint32_t i = 0; i < books.problems; i++) fprintf(stderr, "books: %s\n", books.problem[i]);
    CHECK(books.problems == 0);
    CHECK(books.loaned == 0 && books.held == 0, "loaned %u, held %u", books.loaned, books.held);
    for (uint32_t i = 0; i < r->header->descriptors; i++) {
        struct descriptor *d = &r->descriptors[i];
        unused += state_kind(load_seq(&d->state)) == FREE;
        in_queues += marks[i] ? load_relaxed(&d->block_granules) : 0;
    }
    CHECK(unused + books.queued == r->header->descriptors, "free %u, queued %u of %u", unused, books.queued,
          r->header->descriptors);
    CHECK(books.granules_used == in_queues, "%u granules are used, %u lie in queues", books.granules_used, in_queues);
    CHECK(load_relaxed(&r->hints->descriptors_used) == books.queued, "the hint says %u", r->hints->descriptors_used);
    free(marks);
}
