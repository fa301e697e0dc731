/* Whole reads and writes, small files, and descriptors over sockets. Used by every process; of
 * all that only io_recv_fds() also runs between clone and exec. */
#include "jail/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

ssize_t io_read_full(int fd, void *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, (char *)data + done, size - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -errno;
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int io_write_full(int fd, const void *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = write(fd, (const char *)data + done, size - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -errno;
        }
        done += (size_t)n;
    }
    return 0;
}

int io_read_fd(int fd, size_t limit_bytes, struct buf *ret)
{
    size_t total = 0;
    for (;;) {
        size_t want = total == 0 ? 4096 : 65536;
        char *to = buf_reserve(ret, want);
        if (!to) {
            return -ENOMEM;
        }
        ssize_t n = io_read_full(fd, to, want);
        if (n < 0) {
            return (int)n;
        }
        ret->len += (size_t)n;
        ret->data[ret->len] = '\0';
        total += (size_t)n;
        if (total > limit_bytes) {
            return -EFBIG;
        }
        if ((size_t)n < want) {
            return 0;
        }
    }
}

static int wait_in_reads(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ? -errno : 0;
}

/* A pipe without a name cannot get another writer: one that has none has ended. */
static bool has_name(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) < 0 || fs.f_type != PIPEFS_MAGIC;
}

/* The first read does not wait, and tells a pipe that nobody has open for writing from one that is empty. */
static int read_pipe(int fd, size_t limit_bytes, struct buf *ret)
{
    char *to = buf_reserve(ret, 1);
    if (to) {
        *to = '\0';
    }
    ssize_t n = to ? read(fd, to, 1) : -1;
    if (n == 0) {
        return has_name(fd) ? -EPIPE : 0;
    }
    if (n < 0 && (!to || errno != EAGAIN)) {
        return to ? -errno : -ENOMEM;
    }
    size_t begun = n > 0;
    ret->len += begun;
    ret->data[ret->len] = '\0';
    int r = begun > limit_bytes ? -EFBIG : wait_in_reads(fd);
    return r < 0 ? r : io_read_fd(fd, limit_bytes - begun, ret);
}

int io_read_file_at(int dirfd, const char *path, size_t limit_bytes, struct buf *ret)
{
    struct stat st;
    CLEANUP(fd_closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno == EAGAIN) {
        /* Somebody holds a lease on a file, and has been asked to let it go. */
        fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    if (S_ISFIFO(st.st_mode)) {
        return read_pipe(fd, limit_bytes, ret);
    }
    bool is_terminal = S_ISCHR(st.st_mode) && isatty(fd);
    int r = is_terminal ? wait_in_reads(fd) : 0;
    return r < 0 ? r : io_read_fd(fd, limit_bytes, ret);
}

/* The part of the path that is at fault: the first directory that is not there or may not be passed, or else
 * the whole. */
static void failing_part(const char *path, char ret[PATH_MAX])
{
    struct stat st;
    for (size_t n = 1; path[0] && path[n] && n < PATH_MAX; n++) {
        if (path[n] == '/') {
            snprintf(ret, PATH_MAX, "%.*s", (int)n, path);
            if (faccessat(AT_FDCWD, ret, X_OK, AT_EACCESS) < 0) {
                return;
            }
        }
    }
    /* Of a file to be made, the directory. */
    snprintf(ret, PATH_MAX, "%s", path);
    char *slash = strrchr(ret, '/');
    if (slash && slash > ret && stat(ret, &st) < 0) {
        *slash = '\0';
    }
}

const char *io_path_error(const char *path, int code, char ret[IO_PATH_ERROR_BYTES])
{
    struct stat st;
    char part[PATH_MAX];
    int used = snprintf(ret, IO_PATH_ERROR_BYTES, "%s",
                        code == EPIPE    ? "it is a pipe that nobody writes to"
                        : code == EAGAIN ? "it is no file, and has nothing to be read now"
                                         : strerror(code));
    char *end = ret + used;
    size_t room = IO_PATH_ERROR_BYTES - (size_t)used;
    failing_part(path, part);
    bool there = stat(part, &st) == 0;
    if (code == EACCES && there) {
        snprintf(end, room,
                 ": %.180s belongs to uid %u and gid %u and has mode %04o, and this is uid %u and gid %u; "
                 "chown or "
                 "chmod it",
                 part, st.st_uid, st.st_gid, st.st_mode & 07777u, geteuid(), getegid());
    } else if (code == ENOENT && !there && strcmp(part, path) != 0) {
        snprintf(end, room, ": there is no %.180s", part);
    }
    return ret;
}

int io_write_file_at(int dirfd, const char *path, const char *text)
{
    CLEANUP(fd_closep) int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return -errno;
    }
    size_t size = strlen(text);
    ssize_t n;
    do {
        n = write(fd, text, size);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return -errno;
    }
    return (size_t)n == size ? 0 : -EIO;
}

int io_read_u64_at(int dirfd, const char *path, uint64_t *ret)
{
    CLEANUP(fd_closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return -errno;
    }
    char text[32];
    ssize_t n = io_read_full(fd, text, sizeof text - 1);
    if (n < 0) {
        return (int)n;
    }
    if (n == (ssize_t)sizeof text - 1) {
        return -ERANGE; /* cut: not to be taken for its beginning */
    }
    if (n > 0 && text[n - 1] == '\n') {
        n--;
    }
    text[n] = '\0';
    if (strcmp(text, "max") == 0) {
        *ret = UINT64_MAX;
        return 0;
    }
    return io_parse_u64(text, ret);
}

int io_parse_u64(const char *text, uint64_t *ret)
{
    uint64_t value = 0;
    if (!*text) {
        return -EINVAL;
    }
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9') {
            return -EINVAL;
        }
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)) {
            return -ERANGE;
        }
    }
    *ret = value;
    return 0;
}

bool io_is_bool(const bool *place)
{
    unsigned char byte;
    memcpy(&byte, place, sizeof byte);
    return byte <= 1;
}

int io_memfd(const char *name, const void *data, size_t size, int *ret_fd)
{
    CLEANUP(fd_closep) int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return -errno;
    }
    int r = io_write_full(fd, data, size);
    if (r < 0) {
        return r;
    }
    if (lseek(fd, 0, SEEK_SET) < 0) {
        return -errno;
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

#define SEAL_ATTEMPTS 4

static int copy_memfd(int from, uint64_t size, int *ret_fd)
{
    char piece[16384];
    CLEANUP(fd_closep) int fd = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = fd < 0 ? -errno : 0;
    for (uint64_t done = 0; r == 0 && done < size;) {
        uint64_t left = size - done;
        ssize_t n = pread(from, piece, left < sizeof piece ? (size_t)left : sizeof piece, (off_t)done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        r = n < 0 ? -errno : n == 0 ? -EIO : io_write_full(fd, piece, (size_t)n);
        done += n > 0 ? (uint64_t)n : 0;
    }
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0) {
        r = -errno;
    }
    if (r == 0) {
        *ret_fd = TAKE_FD(fd);
    }
    return r;
}

/* mm/memfd.c: the kernel waits some 150 ms for whoever else holds a page; one that reclaims or moves memory
 * may lose its processor for longer meanwhile. It does not have the pages of a copy. */
int io_memfd_seal(int *fd, uint64_t size)
{
    for (int attempt = 1;
         fcntl(*fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0; attempt++) {
        if (errno != EBUSY || attempt == SEAL_ATTEMPTS) {
            return -errno;
        }
        int copy;
        int r = copy_memfd(*fd, size, &copy);
        if (r < 0) {
            return r;
        }
        close(*fd);
        *fd = copy;
    }
    return 0;
}

union fd_control {
    char space[CMSG_SPACE(IO_FDS_MAX * sizeof(int))];
    struct cmsghdr align;
};

int io_send_fds(int sock, const void *data, size_t size, const int *fds, size_t n_fds)
{
    if (n_fds > IO_FDS_MAX) {
        return -EINVAL;
    }
    union fd_control control;
    memset(&control, 0, sizeof control);
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_fds > 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(cmsg), fds, n_fds * sizeof(int));
    }
    ssize_t n;
    do {
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* Moves the descriptors out of a received message; those that do not fit are closed and make it fail. */
static int take_fds(struct msghdr *msg, int *fds, size_t room, size_t *ret_count)
{
    size_t count = 0;
    bool over = false;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof fd, sizeof fd);
            if (count < room) {
                fds[count++] = fd;
            } else {
                close(fd);
                over = true;
            }
        }
    }
    *ret_count = count;
    return over ? -EMSGSIZE : 0;
}

ssize_t io_recv_fds_or_bare(int sock, void *data, size_t size, int *fds, size_t *n_fds, bool *ret_bare)
{
    union fd_control control;
    struct iovec iov = {.iov_base = data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof control.space};
    ssize_t n;
    do {
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return -errno;
    }
    size_t count = 0;
    int r = take_fds(&msg, fds, *n_fds, &count);
    /* The kernel cuts them off for want of space in `control`, or of free numbers. */
    bool bare = r == 0 && !(msg.msg_flags & MSG_TRUNC) && (msg.msg_flags & MSG_CTRUNC) && count < IO_FDS_MAX;
    if (r == 0 && !bare && (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        r = -EMSGSIZE;
    }
    *ret_bare = bare;
    if (r < 0 || bare) {
        for (size_t i = 0; i < count; i++) {
            fd_closep(&fds[i]); /* and -1 in the caller's array: nobody closes such a number twice */
        }
        *n_fds = 0;
        return bare ? n : r;
    }
    *n_fds = count;
    return n;
}

ssize_t io_recv_fds(int sock, void *data, size_t size, int *fds, size_t *n_fds)
{
    bool bare = false;
    ssize_t n = io_recv_fds_or_bare(sock, data, size, fds, n_fds, &bare);
    return bare ? -EMSGSIZE : n;
}

size_t io_reads_pending(int pipe, size_t size)
{
    int bytes = 0;
    return pipe >= 0 && ioctl(pipe, FIONREAD, &bytes) == 0 && bytes > 0 ? ((size_t)bytes + size - 1) / size
                                                                        : 0;
}
