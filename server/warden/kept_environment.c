/* Keeps the start-up environment for reloads. Runs in the warden.
 *
 * Keys may come from the environment. The process's own copy is overwritten right after the configuration is
 * read, since every jail's PID 1 begins as a copy of the warden's memory. So what a reload needs lies in an
 * anonymous file instead: its descriptor is closed on exec and by every jail, and it is in memory only while
 * a configuration is being read. */
#include "server/warden/kept_environment.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

int kept_environment_save(char *const *env, int *ret_fd, struct err *reterr)
{
    struct buf text = BUF_INIT;
    for (size_t i = 0; env[i]; i++) {
        buf_append(&text, env[i], strlen(env[i]) + 1);
    }
    int r = text.failed ? -ENOMEM : io_memfd("environment", text.data, text.len, ret_fd);
    if (text.data) {
        explicit_bzero(text.data, text.cap);
    }
    buf_free(&text);
    return r < 0 ? err_errno(reterr, -r, "keeping the environment for reloads") : 0;
}

int kept_environment_restore(int fd, struct kept_environment *ret, struct err *reterr)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return err_errno(reterr, errno, "reading the kept environment");
    }
    struct kept_environment environment = {.size = (size_t)st.st_size};
    environment.text = malloc(environment.size + 1);
    ssize_t n = environment.text ? pread(fd, environment.text, environment.size, 0) : -1;
    size_t count = 0;
    for (ssize_t i = 0; i < n; i++) {
        count += environment.text[i] == '\0';
    }
    environment.vars = n == st.st_size ? calloc(count + 1, sizeof environment.vars[0]) : NULL;
    if (!environment.vars) {
        kept_environment_wipe(&environment);
        return err_errno(reterr, ENOMEM, "reading the kept environment");
    }
    char *at = environment.text;
    for (size_t i = 0; i < count; i++) {
        environment.vars[i] = at;
        at += strlen(at) + 1;
    }
    *ret = environment;
    return 0;
}

void kept_environment_wipe(struct kept_environment *environment)
{
    if (environment->text) {
        explicit_bzero(environment->text, environment->size);
    }
    free(environment->text);
    free(environment->vars);
    *environment = (struct kept_environment){0};
}
