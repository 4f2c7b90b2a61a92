/* A log, read from its first record to its last one without Python: `log_read FOLDER TIMES`. One figure a pass. */
#include <fcntl.h>

#include "../../rtmw/log/reader.h"
#include "common.h"

int main(int argc, char **argv)
{
    struct log_fault fault = {0};
    struct log_folder folder = {.io = &log_io_system};
    void *description = NULL;
    uint32_t size;
    uint64_t earliest, end;
    int times = argument(argc, argv, 2, 1);
    folder.folder = argc == 3 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1;
    if (folder.folder < 0) return 1;
    if (log_identify(&folder, &description, &size, &fault) || log_bounds(&folder, &earliest, &end, &fault)) return 1;
    free(description);
    for (int n = -1; n < times; n++) { /* the first one warms up */
        struct reader reader;
        struct reader_record record;
        uint64_t seen = 0, start = now_ns();
        reader_open(&reader, &folder, earliest);
        int code;
        while (!(code = reader_next(&reader, end, &record, &fault))) seen += record.data_size;
        reader_close(&reader);
        uint64_t stop = now_ns();
        if (code != LOG_AT_END || seen == 0) return 1;
        if (n >= 0) printf("%llu\n", (unsigned long long)(stop - start));
    }
    return 0;
}
