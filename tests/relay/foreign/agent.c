/* An agent in C, from docs/relay.md alone: agent PORT ADDRESS TO [COUNT]. With COUNT it sends so many orders to TO, one after
 * the other, and prints "delivered N" or "failed: WORDS"; else it receives, and prints what comes. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 36, ANSWERED = 25, MOST = 65536 };

static unsigned char in[MOST];
static size_t have;

static void put_sum(unsigned char *f, size_t size)
{
    unsigned long sum = 0;
    for (size_t i = 0; i < size; i++) sum += i >= 31 && i < 34 ? 0 : f[i];
    for (int i = 0; i < 3; i++) f[31 + i] = (unsigned char)(sum >> (16 - 8 * i));
}

static void send_frame(int fd, const char *from, const char *to, char type, const void *data, size_t size)
{
    unsigned char f[MOST];
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    f[0] = 2;
    snprintf((char *)f + 1, HEAD, "%-4.4s%-4.4s%022llu", from, to,
             (unsigned long long)t.tv_sec * 1000000000 + (unsigned long long)t.tv_nsec);
    f[34] = (unsigned char)type, f[35] = 'I';
    memcpy(f + HEAD, data, size);
    f[HEAD + size] = '\n';
    put_sum(f, HEAD + size + 1);
    if (write(fd, f, HEAD + size + 1) < 0) exit(2);
}

static size_t next_frame(int fd) /* its size without the line feed; it stays at the beginning of `in` */
{
    for (;;) {
        size_t least = HEAD + (have > 34 && in[34] == 'A' ? ANSWERED : 0);
        unsigned char *end = have > least ? memchr(in + least, '\n', have - least) : NULL;
        if (end) return (size_t)(end - in);
        ssize_t got = read(fd, in + have, sizeof in - have);
        if (got <= 0) exit(3);
        have += (size_t)got;
    }
}

int main(int count, char **words)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((unsigned short)atoi(words[1])),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), orders = count > 4 ? atoi(words[4]) : 0;
    if (connect(fd, (struct sockaddr *)&at, sizeof at)) return 1;
    for (int i = 0; !orders || i < orders; i++) {
        char data[64];
        if (orders) send_frame(fd, words[2], words[3], 'O', data, (size_t)snprintf(data, sizeof data, "order %d", i));
        size_t size = next_frame(fd);
        if (orders && size > HEAD + ANSWERED) {
            printf("failed: %.*s\n", (int)(size - HEAD - ANSWERED), in + HEAD + ANSWERED);
        } else if (!orders) {
            unsigned char answer[ANSWERED];
            printf("got %.*s\n", (int)(size - HEAD), in + HEAD);
            fflush(stdout);
            memcpy(answer, in + 9, 22), memcpy(answer + 22, in + 31, 3);
            send_frame(fd, words[2], words[3], 'A', answer, sizeof answer);
        }
        memmove(in, in + size + 1, have -= size + 1);
        if (orders && i == orders - 1) printf("delivered %d\n", orders);
    }
    return 0;
}
