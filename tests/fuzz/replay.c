/* A fuzz target without a fuzzer: runs it once for each file, and for each file of a directory. So every
 * compiler and every sanitizer can be shown the corpora, and what was found once is never forgotten. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/io.h"
#include "tests/fuzz/fuzz.h"

#define INPUT_MAX  (64u << 20)
#define PATH_BYTES 4096

/* Targets refer to it; nobody mutates here. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    size = size < max_size ? size : max_size;
    memset(data, 0, size);
    return size;
}

static void die(const char *path, int code) __attribute__((noreturn));
static void die(const char *path, int code)
{
    fprintf(stderr, "%s: %s\n", path, strerror(code));
    exit(1);
}

static void run_file(const char *path)
{
    CLEANUP(buf_free) struct buf input = BUF_INIT;
    int r = io_read_file_at(AT_FDCWD, path, INPUT_MAX, &input);
    if (r < 0) {
        die(path, -r);
    }
    /* In a block of its own, with nothing behind it that a reader past the end could read. */
    CLEANUP(freep) uint8_t *exact = malloc(input.len > 0 ? input.len : 1);
    if (!exact) {
        die(path, ENOMEM);
    }
    if (input.len > 0) {
        memcpy(exact, input.data, input.len);
    }
    LLVMFuzzerTestOneInput(exact, input.len);
}

static size_t run_directory(const char *path)
{
    CLEANUP(dir_closep) DIR *dir = opendir(path);
    size_t n = 0;
    if (!dir) {
        die(path, errno);
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        char file[PATH_BYTES];
        if (entry->d_name[0] != '.') {
            snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
            fprintf(stderr, "%s\n", file); /* the last line names the culprit */
            run_file(file);
            n++;
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    size_t n = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) < 0) {
            die(argv[i], errno);
        }
        if (S_ISDIR(st.st_mode)) {
            n += run_directory(argv[i]);
        } else {
            run_file(argv[i]);
            n++;
        }
    }
    if (n == 0) {
        fprintf(stderr, "usage: %s FILE|DIRECTORY...\n", argv[0]);
        return 2;
    }
    printf("%zu inputs\n", n);
    return 0;
}
