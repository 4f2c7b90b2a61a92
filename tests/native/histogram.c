/* histogram: every time has one bucket, the buckets leave no gap, and none is wider than it may be. */
#include "histogram.h"
#include "native.h"

static void check_bucket(uint32_t bucket)
{
    uint64_t lowest = histogram_lowest_ns(bucket), end = histogram_lowest_ns(bucket + 1), finest = 1u << UNIT_BITS;
    CHECK(histogram_bucket(lowest) == bucket, "bucket %u begins at %llu", bucket, (unsigned long long)lowest);
    CHECK(histogram_bucket(end - 1) == bucket, "bucket %u ends before %llu", bucket, (unsigned long long)end);
    CHECK(end - lowest == finest || (end - lowest) * PARTS <= lowest, "bucket %u is too wide", bucket);
}

static void check_recording(void)
{
    struct histogram *histogram = calloc(1, sizeof *histogram);
    uint64_t seed = 1, total = 0;
    for (uint32_t i = 0; i < 100000; i++) histogram_record(histogram, random_next(&seed) >> (random_next(&seed) & 63));
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) total += histogram->count[bucket];
    CHECK(total == 100000, "%llu are counted", (unsigned long long)total);
    uint64_t *count = &histogram->count[histogram_bucket(1000)], before = *count;
    histogram_record(histogram, 1000);
    histogram_forget(histogram, 1000);
    CHECK(*count == before);
    histogram_clear(histogram);
    histogram_forget(histogram, 1000);
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) CHECK(histogram->count[bucket] == 0);
    free(histogram);
}

int main(void)
{
    CHECK(histogram_lowest_ns(0) == 0);
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) check_bucket(bucket);
    uint64_t longest = histogram_lowest_ns(HISTOGRAM_BUCKETS);
    CHECK(longest > UINT64_C(4) * 60 * 1000000000, "it ends after %llu ns", (unsigned long long)longest);
    CHECK(histogram_bucket(longest) == HISTOGRAM_BUCKETS - 1);
    CHECK(histogram_bucket(UINT64_MAX) == HISTOGRAM_BUCKETS - 1);
    check_recording();
    printf("%u buckets, up to %llu s\n", HISTOGRAM_BUCKETS, (unsigned long long)(longest / 1000000000));
    return 0;
}
