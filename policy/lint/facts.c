/* What lint can know of a policy's jail: what its filter answers, what it shows. On the command line alone;
 * looks at the host's files, but changes nothing. */
#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/server/config.h"
#include "policy/compiled.h"
#include "jail/base/bpf_run.h"
#include "policy/filter/names.h"
#include "policy/lint/lint_internal.h"
#include "policy/mounts.h"
#include "policy/policy.h"

#define LINKS_MAX 8

uint32_t lint_answer(const struct lint *lint, const char *call, const uint64_t arguments[6], bool *ret_known)
{
    struct seccomp_data data = {.nr = policy_syscall_number(call, NULL), .arch = policy_native_arch()};
    const struct policy_filter *filter = &lint->policy->filter;
    memcpy(data.args, arguments, sizeof data.args);
    *ret_known = data.nr >= 0;
    return bpf_run(filter->instructions, filter->length, &data);
}

bool lint_makes_threads(const struct lint *lint)
{
    static const uint64_t flags[6] = {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                      CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |
                                      CLONE_CHILD_CLEARTID};
    return policy_allows_call(lint->policy, "clone", flags);
}

bool lint_makes_processes(const struct lint *lint)
{
    static const uint64_t none[6] = {0}, flags[6] = {CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD};
    return policy_allows_call(lint->policy, "clone", flags) ||
           policy_allows_call(lint->policy, "fork", none) || policy_allows_call(lint->policy, "vfork", none);
}

bool lint_interprets(const struct lint *lint, const char *name)
{
    const char *interpreter = lint->spec->interpreter, *slash = strrchr(interpreter, '/');
    const char *base = slash ? slash + 1 : interpreter;
    return strncmp(base, name, strlen(name)) == 0;
}

/* ---- What the jail shows ---- */

bool lint_follow(const struct policy_spec *spec, const char *path, char *ret)
{
    snprintf(ret, PATH_MAX, "%s", path);
    for (unsigned n = 0; n < LINKS_MAX; n++) {
        const struct policy_mount *link = policy_mount_over(spec, ret);
        char next[PATH_MAX];
        if (!link || link->kind != POLICY_MOUNT_SYMLINK) {
            return true;
        }
        int above =
            link->source[0] == '/' ? 0 : (int)(strrchr(link->destination, '/') - link->destination) + 1;
        int length = snprintf(next, sizeof next, "%.*s%s%s", above, link->destination, link->source,
                              ret + strlen(link->destination));
        if (length < 0 || length >= PATH_MAX) {
            return false;
        }
        memcpy(ret, next, (size_t)length + 1);
    }
    return false;
}

/* What the interpreter brings along; where it has not been found, whatever may belong to it. */
static bool interpreter_shows(const struct lint *lint, const char *path)
{
    const struct runtime_config *shown = lint->policy->shown;
    if (!lint->spec->interpreter[0]) {
        return false;
    }
    for (size_t i = 0; shown && i < shown->n_needs; i++) {
        if (path_is_at_or_below(path, shown->needs[i].path) || path_is_below(shown->needs[i].path, path)) {
            return true;
        }
    }
    return !shown && (path_is_at_or_below(path, "/usr") || strncmp(path, "/lib", 4) == 0 ||
                      path_is_at_or_below(path, "/bin"));
}

static bool is_above_a_mount(const struct policy_spec *spec, const char *path)
{
    bool any = false;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        any |= path_is_below(spec->mounts[i].destination, path);
    }
    return any;
}

bool lint_shows(const struct lint *lint, const char *path)
{
    char real[PATH_MAX], host[2 * PATH_MAX];
    if (lint->spec->image[0] || lint->spec->n_images > 0 || path[0] != '/') {
        return true;
    }
    if (!lint_follow(lint->spec, path, real)) {
        return false;
    }
    const struct policy_mount *over = policy_mount_over(lint->spec, real);
    if (is_above_a_mount(lint->spec, real) || interpreter_shows(lint, real) ||
        interpreter_shows(lint, path)) {
        return true;
    }
    if (!over || over->kind != POLICY_MOUNT_BIND) {
        return over != NULL;
    }
    snprintf(host, sizeof host, "%s%s", over->source, real + strlen(over->destination));
    return access(host, F_OK) == 0 || errno != ENOENT;
}

bool lint_is_writable(const struct lint *lint, const char *path)
{
    char real[PATH_MAX];
    const struct policy_mount *over =
        lint_follow(lint->spec, path, real) ? policy_mount_over(lint->spec, real) : NULL;
    return over &&
           (over->kind == POLICY_MOUNT_SCRATCH ||
            ((over->kind == POLICY_MOUNT_BIND || over->kind == POLICY_MOUNT_TMPFS) && !over->read_only));
}
