/* What the rows of `immure check` share. Runs in the process of the command line; whatever
 * changes namespaces or mounts does so in a forked child. */
#include "server/probe/probe.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"

const char *probe_status_to_string(enum probe_status status)
{
    static const char *const names[] = {
        [PROBE_OK] = "OK", [PROBE_WARN] = "WARN", [PROBE_MISSING] = "MISSING"};
    return names[status];
}

void probe_ok(struct probe_result *ret, const char *found, ...)
{
    va_list ap;
    ret->status = PROBE_OK;
    va_start(ap, found);
    vsnprintf(ret->found, sizeof ret->found, found, ap);
    va_end(ap);
}

void probe_fail(struct probe_result *ret, enum probe_status status, const char *found, const char *means,
                const char *remedy)
{
    ret->status = status;
    snprintf(ret->found, sizeof ret->found, "%s", found);
    snprintf(ret->means, sizeof ret->means, "%s", means);
    snprintf(ret->remedy, sizeof ret->remedy, "%s", remedy);
}

int probe_in_child(int (*fn)(unsigned long argument), unsigned long argument)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        return -errno;
    }
    if (pid == 0) {
        int r = fn(argument);
        _exit(r < 0 && r > -256 ? -r : r == 0 ? 0 : 255);
    }
    int status;
    if (waitpid(pid, &status, 0) < 0) {
        return -errno;
    }
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}
