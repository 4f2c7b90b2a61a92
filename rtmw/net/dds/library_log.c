/* Lines of the DDS library, which would write each to standard error: strangers can make it write 30,000 a second.
 *
 * The wheel of cyclonedds hides the functions that give the library a sink for its log. It writes to the FILE that `stderr`
 * was when it began to log. glibc's `stderr` is a variable that a program may set, so for that moment it is a stream of
 * ours, whose writes keep LIBRARY_LOG_LINES lines and count the others. Nothing is written there and nobody waits: the
 * library calls it with locks of its own, on its threads. With another libc the library logs to standard error.
 */
#include "library_log.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "../route/locks.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct library_log kept; /* under `mutex` */

#ifdef __GLIBC__
static size_t length; /* under `mutex`: bytes of the line that is not complete */

static void add(char letter)
{
    bool has_room = kept.count < LIBRARY_LOG_LINES;
    if (letter != '\n') {
        if (has_room && length < LIBRARY_LOG_LONGEST - 1) kept.lines[kept.count][length++] = letter;
        return;
    }
    if (has_room)
        kept.lines[kept.count++][length] = 0;
    else
        kept.more++;
    length = 0;
}

static ssize_t write_lines(void *unused, const char *data, size_t size)
{
    (void)unused;
    lock(&mutex, LOCK_LEAF);
    for (size_t at = 0; at < size; at++) add(data[at]);
    unlock(&mutex, LOCK_LEAF);
    return (ssize_t)size;
}

bool library_log_capture(bool is_on)
{
    static FILE *own, *before;
    if (!own) own = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_lines});
    if (!own) return false;
    if (is_on) before = stderr;
    stderr = is_on ? own : before;
    return true;
}
#else
bool library_log_capture(bool is_on) { return (void)is_on, false; }
#endif

void library_log_take(struct library_log *taken)
{
    lock(&mutex, LOCK_LEAF);
    *taken = kept;
    kept.count = 0;
    kept.more = 0;
    unlock(&mutex, LOCK_LEAF);
}
