/* A started interpreter that waits for the one program it will ever run, in a jail that is that program's own
 * (jail/standby.h). Nothing is forked: what this process may do is what its job may, from its first
 * instruction on. So it is for interpreters that nobody vouches for, which are an image's.
 *
 * Whatever does not go as it should ends the process, and the jail with it. */
#include "jail/runtime/python/standby.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/runtime/python/words.h"
#include "jail/zygote.h"

#define PROGRAM_FD 63

bool standby_is_wanted(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && !S_ISSOCK(status.st_mode);
}

/* PID 1 has put the job's pipes into their places when it is denied. No signal may end the call. */
static bool wait_for_program(void)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    bool denied = inotify_init1(0) < 0 && errno == EPERM;
    return sigprocmask(SIG_SETMASK, &before, NULL) == 0 && denied;
}

/* How many strings, and these: the script's path and its arguments. NULL: that is none. */
static char *read_program(size_t *ret_bytes)
{
    CLEANUP(fd_closep) int fd = PROGRAM_FD;
    struct stat status;
    if (fstat(fd, &status) < 0 || status.st_size <= 0) {
        return NULL;
    }
    size_t size = (size_t)status.st_size;
    CLEANUP(freep) char *text = malloc(size);
    if (!text || pread(fd, text, size, 0) != (ssize_t)size || text[size - 1] != '\0') {
        return NULL;
    }
    *ret_bytes = size;
    return TAKE_PTR(text);
}

static int take_arguments(const struct python *python, char *text, size_t bytes, struct zygote_run *ret)
{
    size_t count = strtoul(text, NULL, 10);
    char **argv = count > bytes ? NULL : calloc(python->argc + count + 1, sizeof *argv);
    if (!argv) {
        return -1;
    }
    memcpy(argv, python->argv, python->argc * sizeof *argv);
    char *word = text;
    for (size_t i = 0; i < count; i++) {
        word += strlen(word) + 1;
        if (word >= text + bytes) {
            return -1;
        }
        argv[python->argc + i] = word;
    }
    ret->argv = argv;
    ret->argc = python->argc + count;
    return 0;
}

/* They came with close-on-exec; the program's own children are to have the first three. */
static int keep_streams(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_SETFD, 0) < 0) {
            return -1;
        }
    }
    return 0;
}

int standby_serve(const struct python *python, struct zygote_run *ret)
{
    size_t bytes;
    if (!wait_for_program() || keep_streams() < 0) {
        return -1;
    }
    char *text = read_program(&bytes); /* the arguments point into it */
    *ret = (struct zygote_run){.envp = python->environment, .bridge = true};
    return text ? take_arguments(python, text, bytes, ret) : -1;
}
