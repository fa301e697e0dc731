/* Runs in the warden of an ordinary user, once, before it makes anything.
 *
 * The maps of a user namespace can be written once, by a process outside of it: a helper, which has
 * newuidmap and newgidmap do it, who look whether the ids are the user's. All of it is tried before, in a
 * process that ends, because there is no way back. */
#include "server/host/sub_ids.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/helper.h"
#include "jail/base/io.h"

struct maps {
    pid_t process; /* whose namespace it is */
    uint32_t uid, gid;
    uint32_t first, count;
    uint32_t first_uid, first_gid; /* outside */
};

/* NAME:FIRST:COUNT in each line, where NAME may be a number. Returns the first of a range that is large
 * enough; 0: there is none. */
static uint32_t find_range(char *text, const char *name, const char *number, uint32_t count)
{
    char *rest, *more;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *who = strtok_r(line, ":", &more), *first = strtok_r(NULL, ":", &more);
        const char *n = strtok_r(NULL, ":", &more);
        bool ours = who && (strcmp(who, name) == 0 || strcmp(who, number) == 0);
        if (ours && first && n && strtoul(n, NULL, 10) >= count) {
            return (uint32_t)strtoul(first, NULL, 10);
        }
    }
    return 0;
}

static uint32_t range_of(const char *path, uint32_t count)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    char number[16];
    const struct passwd *user = getpwuid(geteuid());
    snprintf(number, sizeof number, "%u", geteuid());
    return io_read_file_at(AT_FDCWD, path, 1 << 20, &text) < 0 || text.len == 0
               ? 0
               : find_range(text.data, user ? user->pw_name : number, number, count);
}

/* newuidmap PID, and two lines of the map: INSIDE OUTSIDE COUNT each. */
static bool write_map(const char *tool, const struct maps *maps, uint32_t own, uint32_t first_outside)
{
    const uint32_t numbers[] = {(uint32_t)maps->process, own,        own, 1, maps->first,
                                first_outside,           maps->count};
    char texts[ARRAY_SIZE(numbers)][16], name[32];
    char *argv[ARRAY_SIZE(numbers) + 2] = {name};
    snprintf(name, sizeof name, "%s", tool);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        snprintf(texts[i], sizeof texts[i], "%u", numbers[i]);
        argv[i + 1] = texts[i];
    }
    pid_t pid;
    int status;
    return posix_spawnp(&pid, name, NULL, NULL, argv, environ) == 0 && waitpid(pid, &status, 0) == pid &&
           status == 0;
}

/* The helper: waits until its parent is in its namespace, and answers with a byte when its maps are there. */
static void map_parent(int sock, void *arg)
{
    const struct maps *maps = arg;
    char byte;
    if (read(sock, &byte, 1) == 1 && write_map("newuidmap", maps, maps->uid, maps->first_uid) &&
        write_map("newgidmap", maps, maps->gid, maps->first_gid)) {
        (void)!write(sock, &byte, 1);
    }
}

static bool enter(struct maps *maps)
{
    struct helper helper = HELPER_NONE;
    char byte = 1;
    maps->process = getpid();
    bool entered = helper_start("immure-sub-ids", map_parent, maps, &helper) == 0 &&
                   unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write(helper.sock, &byte, 1) == 1 &&
                   read(helper.sock, &byte, 1) == 1 &&
                   mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    helper_stop(&helper);
    return entered;
}

static bool works(struct maps *maps)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(enter(maps) ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int sub_ids_enter(uint32_t first, uint32_t count, char why[static SUB_IDS_WHY_BYTES], struct err *reterr)
{
    struct maps maps = {.uid = geteuid(), .gid = getegid(), .first = first, .count = count};
    maps.first_uid = range_of("/etc/subuid", count);
    maps.first_gid = range_of("/etc/subgid", count);
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
        snprintf(why, SUB_IDS_WHY_BYTES, "no_new_privs is set, with which newuidmap cannot do its work");
        return 0;
    }
    if (maps.first_uid == 0 || maps.first_gid == 0) {
        snprintf(why, SUB_IDS_WHY_BYTES, "%s gives this user no %u ids",
                 maps.first_uid == 0 ? "/etc/subuid" : "/etc/subgid", count);
        return 0;
    }
    if (!works(&maps)) {
        snprintf(why, SUB_IDS_WHY_BYTES, "newuidmap or newgidmap (Debian: uidmap) is missing, or refuses");
        return 0;
    }
    return enter(&maps) ? 1
                        : err_set(reterr, ERR_HOST, EPERM, "sub_uids",
                                  "a user namespace with the ids of /etc/subuid could be made once, and then "
                                  "not; sub_uids: false does without");
}
