/* Publish measurements from C: COUNT structs on a topic, RELIABLE, so that no subscriber misses one.
 *
 *   make -C examples/c
 *   examples/c/publisher TOPIC COUNT        in domain RTMW_DOMAIN, else 0, which is made if it is not there
 */
#include <stdio.h>
#include <stdlib.h>

#include "rtmw.h"

struct measurement {
    uint32_t number;
    uint32_t reserved;
    double value;
};

static int complain(const char *what, int code)
{
    fprintf(stderr, "%s: %s\n", what, rtmw_describe(code));
    return 1;
}

/* The pool is the one that Python programs make. */
static int join_domain(uint32_t domain, rtmw_region **region)
{
    int code = rtmw_create(domain, UINT64_C(64) << 20, RTMW_RESERVE);
    return code == RTMW_OK || code == RTMW_EXISTS ? rtmw_attach(domain, region) : code;
}

/* In place: the message is written where subscribers read it. */
static int publish_one(rtmw_publisher *publisher, struct measurement measured)
{
    rtmw_loan loan;
    int code;
    while ((code = rtmw_loan_take(publisher, sizeof measured, &loan)) == RTMW_NO_MEMORY)
        rtmw_publisher_wait(publisher, 100000000);
    if (code != RTMW_OK) return code;
    *(struct measurement *)loan.data = measured;
    while ((code = rtmw_loan_publish(publisher, &loan, NULL)) == RTMW_FULL) rtmw_publisher_wait(publisher, 100000000);
    if (code != RTMW_OK) rtmw_loan_drop(publisher, &loan);
    return code;
}

int main(int count, char **arguments)
{
    if (count != 3) return fprintf(stderr, "usage: publisher TOPIC COUNT\n"), 2;
    const char *domain = getenv("RTMW_DOMAIN");
    rtmw_region *region;
    rtmw_publisher *publisher;
    rtmw_publisher_qos qos = RTMW_PUBLISHER_QOS;
    qos.reliability = RTMW_RELIABLE;
    int code = join_domain(domain ? (uint32_t)atoi(domain) : 0, &region);
    if (code != RTMW_OK) return complain("domain", code);
    code = rtmw_publisher_open(region, arguments[1], NULL, &qos, &publisher);
    if (code != RTMW_OK) return complain(arguments[1], code);
    uint32_t messages = (uint32_t)atoi(arguments[2]);
    for (uint32_t i = 1; i <= messages && code == RTMW_OK; i++) {
        struct measurement measured = {i, 0, i * 0.5};
        code = publish_one(publisher, measured);
    }
    rtmw_publisher_close(publisher);
    rtmw_detach(region);
    if (code != RTMW_OK) return complain("publish", code);
    printf("published %u\n", (unsigned)messages);
    return 0;
}
