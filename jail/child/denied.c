/* The table of a jail's denied system calls, both sides of it. PID 1 of a jail makes it when the first call
 * is denied, maps it and sends the file to its parent (the warden, `immure run`), which reads it with the
 * verdict. A jail that denies nothing pays nothing for it, and one that is killed whole has still said what
 * it denied.
 *
 * What must hold: the program never has it. PID 1 makes it when the program's process has memory and
 * descriptors of its own, closes the file at once, and can neither be read nor traced. The parent takes
 * nothing for granted: a file that blocks, shrinks or never ends is none that it reads. */
#include "jail/child/denied.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int make_file(int fd, struct denied_table **ret, const char **ret_call)
{
    *ret_call = "ftruncate";
    if (ftruncate(fd, sizeof **ret) < 0) {
        return -errno;
    }
    *ret_call = "F_ADD_SEALS";
    if (fcntl(fd, F_ADD_SEALS, TABLE_SEALS) < 0) {
        return -errno;
    }
    *ret_call = "mmap";
    void *mapped = mmap(NULL, sizeof **ret, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
        return -errno;
    }
    *ret = mapped;
    return 0;
}

int denied_new(struct denied_table **ret, int *ret_fd, const char **ret_call)
{
    *ret_call = "memfd_create";
    int fd = memfd_create("denied", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return -errno;
    }
    int r = make_file(fd, ret, ret_call);
    if (r < 0) {
        close(fd);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

void denied_count(struct denied_table *table, int32_t nr, uint32_t arch)
{
    uint32_t n = table->n_rows;
    for (uint32_t i = 0; i < n; i++) {
        if (table->rows[i].nr == nr && table->rows[i].arch == arch) {
            table->rows[i].count++;
            return;
        }
    }
    if (n == JAIL_DENIED_MAX) {
        table->rows[JAIL_DENIED_MAX - 1].count++;
        return;
    }
    /* The last row counts all that find no row of their own. */
    table->rows[n] = n == JAIL_DENIED_MAX - 1 ? (struct jail_denied){.nr = -1, .count = 1}
                                              : (struct jail_denied){.nr = nr, .arch = arch, .count = 1};
    /* The row before its number: we may be killed in between. */
    __atomic_store_n(&table->n_rows, n + 1, __ATOMIC_RELEASE);
}

void denied_clear(struct denied_table *table)
{
    __atomic_store_n(&table->n_rows, 0, __ATOMIC_RELEASE);
}

bool denied_is_table(int fd)
{
    struct stat stat;
    return fcntl(fd, F_GET_SEALS) == TABLE_SEALS && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_WRONLY &&
           fstat(fd, &stat) == 0 && stat.st_size == (off_t)sizeof(struct denied_table);
}

int denied_read(int fd, struct jail_denied ret[JAIL_DENIED_MAX])
{
    struct denied_table table;
    ssize_t n = pread(fd, &table, sizeof table, 0);
    if (n < 0) {
        return -errno;
    }
    if (n != (ssize_t)sizeof table || table.n_rows > JAIL_DENIED_MAX) {
        return 0;
    }
    memcpy(ret, table.rows, table.n_rows * sizeof *ret);
    return (int)table.n_rows;
}
