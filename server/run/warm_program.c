/* What keeps a runtime's interpreter warm: found, opened, and how it is started. Runs in the warden. */
#include "server/run/warm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/policy/policy_file.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/template_plan.h"
#include "policy/policy.h"
#include "server/host/programs.h"

bool warm_is_preloaded(const struct runtime_config *runtime)
{
    const char *end = strrchr(runtime->template, '.');
    return end && strcmp(end, ".so") == 0;
}

/* INTERPRETER [OPTION...], how a job's command line begins; then a word of its own, and what to import
 * beforehand: [MODULE...]. */
char **warm_template_arguments(const struct warm_template *template)
{
    static const char start[] = TEMPLATE_START, separator[] = "--";
    const struct runtime_config *runtime = template->runtime;
    const struct policy_spec *spec = policy_spec(template->policy);
    size_t n_own = template->image ? 0 : runtime->n_preload; /* those are packages of the host's */
    char **argv = calloc(runtime->n_args + spec->n_preload + n_own + 3, sizeof *argv);
    size_t n = 0;
    if (!argv) {
        return NULL;
    }
    argv[n++] = runtime->interpreter;
    for (size_t i = 0; i < runtime->n_args; i++) {
        argv[n++] = runtime->args[i];
    }
    argv[n++] = (char *)(uintptr_t)(warm_is_preloaded(template->runtime) ? start : separator);
    for (size_t i = 0; i < spec->n_preload; i++) {
        argv[n++] = spec->preload[i];
    }
    for (size_t i = 0; i < n_own; i++) {
        argv[n++] = runtime->preload[i];
    }
    return argv;
}

int warm_open_program(const struct warm_template *template, int *ret_fd, uint64_t *ret_bytes,
                      struct err *reterr)
{
    char path[PATH_MAX];
    int r = program_find(template->runtime->template, path, reterr);
    if (r < 0) {
        return r;
    }
    struct stat st;
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_set(reterr, ERR_HOST, errno, NULL, "%s: %s", path, strerror(errno));
    }
    *ret_bytes = (uint64_t)st.st_size;
    *ret_fd = TAKE_FD(fd);
    return 0;
}
