/* Two servers with privileges on one host would give jails of both the same uids outside, where they share
 * limits, quotas and signals. So each locks its own in one file: a byte for each uid. Runs once, at the start
 * of a warden or of a command that makes a jail.
 *
 * It tells apart whoever shares /run: not a container with a /run of its own, whose ids the operator keeps
 * apart. Only root can open the file, so nobody else can take uids away. */
#include "server/host/outer_ids.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define PLACE "/run/immure-outer-uids"
#define TRIES 256u

static int open_place(void)
{
    struct stat st;
    CLEANUP(fd_closep) int fd = open(PLACE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool ours = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
                !(st.st_mode & (S_IRWXG | S_IRWXO));
    return ours ? TAKE_FD(fd) : -1;
}

/* Of the open file: it ends with the last descriptor, and ours is never closed. */
static int lock(int fd, uint64_t first, uint64_t count)
{
    struct flock range = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)first, .l_len = (off_t)count};
    return fcntl(fd, F_OFD_SETLK, &range) < 0 ? -errno : 0;
}

int outer_ids_take(uint32_t base, uint32_t count, bool fixed, uint32_t *ret_base, bool *ret_told,
                   struct err *reterr)
{
    uint32_t before = count > 1 ? 1 : 0;
    CLEANUP(fd_closep) int fd = open_place();
    *ret_base = base;
    *ret_told = false;
    if (fd < 0 || base <= before) {
        return 0;
    }
    int r = -EAGAIN;
    for (uint32_t i = 0; i < TRIES && (r == -EAGAIN || r == -EACCES) && (i == 0 || !fixed); i++) {
        *ret_base = base + i * (OUTER_IDS_EACH + 1); /* past a server that has as many as servers have */
        r = lock(fd, *ret_base - before, (uint64_t)count + before);
    }
    if (r == -EAGAIN || r == -EACCES) {
        return err_set(reterr, ERR_HOST, EBUSY, "outer_uid_base",
                       "outer uids %u to %lu are another server's on this host (" PLACE "): choose others",
                       base, (unsigned long)base + count - 1);
    }
    *ret_told = r == 0;
    if (r == 0) {
        (void)TAKE_FD(fd);
    }
    return 0;
}

bool outer_ids_may_be_a_jails(uint32_t id)
{
    return id - OUTER_IDS_BASE < TRIES * (OUTER_IDS_EACH + 1);
}
