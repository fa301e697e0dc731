/* Finds the cgroup that this process was given, and whether it is good for anything: what is missing is
 * named, with the remedy. Looks only, changes nothing. Runs in the warden, `immure run` and `immure check`.
 */
#include "jail/resources/cgroup_own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/proc_text.h"

const char *const cgroup_controllers[CGROUP_CONTROLLERS] = {"memory", "pids", "cpu"};

const char *const cgroup_remedy = "give this process a delegated cgroup v2 subtree (systemd: Delegate=yes; "
                                  "containers: a writable cgroup2 mount and cgroupns private)";

/* Our cgroup in the v2 hierarchy, as the kernel spells it ("/user.slice/..."). */
static int read_own_cgroup(char **ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int r = io_read_file_at(AT_FDCWD, "/proc/self/cgroup", 1 << 20, &text);
    if (r < 0) {
        return err_set(reterr, ERR_HOST, -r, NULL, "reading /proc/self/cgroup: %s", strerror(-r));
    }
    const char *own = proc_text_own_cgroup(text.data);
    if (own) {
        *ret = strdup(own);
        return *ret ? 0 : err_errno(reterr, ENOMEM, "finding our cgroup");
    }
    return err_set(reterr, ERR_HOST, ENOENT, NULL, "this kernel runs without cgroup v2: %s", cgroup_remedy);
}

/* The directory of our own cgroup. */
static int find_own_path(char **ret, struct err *reterr)
{
    CLEANUP(freep) char *own = NULL;
    int r = read_own_cgroup(&own, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    r = io_read_file_at(AT_FDCWD, "/proc/self/mountinfo", 16 << 20, &text);
    if (r < 0) {
        return err_set(reterr, ERR_HOST, -r, NULL, "reading /proc/self/mountinfo: %s", strerror(-r));
    }
    r = proc_text_cgroup_path(own, text.data, ret);
    if (r != -ENOENT) {
        return r < 0 ? err_errno(reterr, -r, "finding our cgroup") : 0;
    }
    return err_set(reterr, ERR_HOST, ENOENT, NULL,
                   "no cgroup2 file system with our cgroup %s is mounted here: %s", own, cgroup_remedy);
}

/* Who is started while another instance lives, or after one was killed, finds itself in that one's SELF: it
 * has taken the shell, or the supervisor, that started us along. What we were given is what it was given. */
static void step_out_of_instances(char *path)
{
    for (;;) {
        char *self = strrchr(path, '/');
        if (!self || strcmp(self + 1, CGROUP_SELF) != 0) {
            return;
        }
        *self = '\0';
        char *instance = strrchr(path, '/');
        if (!instance || strncmp(instance + 1, CGROUP_PREFIX, strlen(CGROUP_PREFIX)) != 0) {
            *self = '/';
            return;
        }
        *instance = '\0';
    }
}

bool cgroup_has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += length) {
        bool starts = p == text || p[-1] == ' ';
        if (starts && (p[length] == ' ' || p[length] == '\n' || p[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static int check_controllers(int own, const char *path, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int r = io_read_file_at(own, "cgroup.controllers", 4096, &text);
    if (r < 0) {
        return err_set(reterr, ERR_HOST, -r, NULL, "reading cgroup.controllers of %s: %s", path,
                       strerror(-r));
    }
    char missing[64] = "";
    for (size_t i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (!cgroup_has_word(text.data, cgroup_controllers[i])) {
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), "%s%s",
                     *missing ? ", " : "", cgroup_controllers[i]);
        }
    }
    if (!*missing) {
        return 0;
    }
    return err_set(reterr, ERR_HOST, ENOENT, NULL,
                   "cgroup v2 at %s does not offer: %s (held by cgroup v1 hierarchies, or not enabled in "
                   "cgroup.subtree_control of the cgroups above); %s",
                   path, missing, cgroup_remedy);
}

/* Held against what a process needs to make cgroups below `path` and to move itself there. */
static int check_writable(int own, const char *path, struct err *reterr)
{
    struct statvfs fs;
    if (fstatvfs(own, &fs) == 0 && (fs.f_flag & ST_RDONLY)) {
        return err_set(reterr, ERR_HOST, EROFS, NULL, "cgroup v2 at %s is mounted read-only: %s", path,
                       cgroup_remedy);
    }
    static const char *const files[] = {".", "cgroup.procs", "cgroup.subtree_control"};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        if (faccessat(own, files[i], W_OK, AT_EACCESS) < 0) {
            int code = errno;
            return err_set(reterr, ERR_HOST, code, NULL, "%s/%s is not writable for uid %u (%s): %s", path,
                           files[i], geteuid(), strerror(code), cgroup_remedy);
        }
    }
    return 0;
}

int cgroup_own_open(char **ret_path, int *ret_dir, struct err *reterr)
{
    CLEANUP(freep) char *path = NULL;
    int r = find_own_path(&path, reterr);
    if (r < 0) {
        return r;
    }
    step_out_of_instances(path);
    CLEANUP(fd_closep) int own = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0) {
        int code = errno;
        return err_set(reterr, ERR_HOST, code, NULL, "opening our cgroup %s: %s", path, strerror(code));
    }
    r = check_controllers(own, path, reterr);
    if (r == 0) {
        r = check_writable(own, path, reterr);
    }
    if (r < 0) {
        return r;
    }
    *ret_path = TAKE_PTR(path);
    *ret_dir = TAKE_FD(own);
    return 0;
}

int jail_cgroup_probe(struct err *reterr)
{
    CLEANUP(freep) char *path = NULL;
    CLEANUP(fd_closep) int own = -1;
    return cgroup_own_open(&path, &own, reterr);
}

bool jail_cgroup_host_swaps(void)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    if (io_read_file_at(AT_FDCWD, "/proc/swaps", 65536, &text) < 0) {
        return true; /* in doubt, yes */
    }
    char *header_end = strchr(text.data, '\n');
    return header_end && header_end[1] != '\0';
}
