/* What the fuzz targets share: their entry and its limits, broken promises, and errors that point into their
 * input. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "jail/base/clock.h"
#include "jail/base/err.h"

/* CPU time of one input, under the sanitizers: far above what the largest takes, and below what it would take
 * if its time grew with the square of its size. Not the clock's, since a fuzzer may wait for the processor.
 */
#define CPU_MAX_NS (500 * NS_PER_MS)

static uint64_t cpu_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static int lowest_free_fd(void)
{
    int fd = dup(STDERR_FILENO);
    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool loaded; /* the first input also pays for what is loaded once */
    int free_before = lowest_free_fd();
    uint64_t start_ns = cpu_now_ns();
    fuzz_one(data, size);
    REQUIRE(!loaded || cpu_now_ns() - start_ns < CPU_MAX_NS);
    REQUIRE(!loaded || lowest_free_fd() == free_before);
    loaded = true;
    return 0;
}

void fuzz_broken(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

/* Lines and columns count from 1, columns in characters. */
static bool is_place(const uint8_t *data, size_t size, unsigned line, unsigned column)
{
    const uint8_t *at = data, *end = data + size;
    for (unsigned i = 1; i < line; i++) {
        at = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        if (!at) {
            return false;
        }
        at++;
    }
    unsigned columns = 1; /* the one behind the last character, too */
    for (; at < end && *at != '\n'; at++) {
        columns += (*at & 0xc0) != 0x80;
    }
    return line > 0 && column > 0 && column <= columns;
}

static void require_refusal(struct expected_refusal refusal, enum err_kind kind)
{
    REQUIRE(refusal.r < 0);
    REQUIRE(refusal.err->kind == kind);
    REQUIRE(refusal.err->code == -refusal.r);
    REQUIRE(refusal.err->text[0] != '\0');
}

void fuzz_require_json_refusal(struct expected_refusal refusal)
{
    unsigned line = 0, column = 0;
    require_refusal(refusal, ERR_INVALID);
    REQUIRE(sscanf(refusal.err->text, "line %u, column %u: ", &line, &column) == 2);
    REQUIRE(is_place(refusal.data, refusal.size, line, column));
}

void fuzz_require_file_refusal(struct expected_refusal refusal, const char *file, bool whole_file_allowed)
{
    unsigned line = 0, column = 0;
    size_t len = strlen(file);
    require_refusal(refusal, ERR_CONFIG);
    if (strncmp(refusal.err->item, "shipped:", strlen("shipped:")) == 0) {
        return; /* of a part that the file uses, and that does not go with the rest */
    }
    REQUIRE(strncmp(refusal.err->item, file, len) == 0);
    if (whole_file_allowed && refusal.err->item[len] == '\0') {
        return;
    }
    REQUIRE(sscanf(refusal.err->item + len, ":%u:%u", &line, &column) == 2);
    REQUIRE(is_place(refusal.data, refusal.size, line, column));
}
