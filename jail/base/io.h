/* Whole reads and writes, small files, and descriptors sent over sockets. All retry EINTR. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct err;

/* Returns the bytes read (less than `size` only at end of file) or -errno. */
ssize_t io_read_full(int fd, void *data, size_t size);
/* Writes everything or returns -errno. */
int io_write_full(int fd, const void *data, size_t size);

/* Appends the whole file at `path` relative to `dirfd` to `ret`; more than `limit_bytes` is -EFBIG. A pipe is
 * read until those who write to it have ended, a terminal until its end; of what else has no end nobody waits
 * for one: a pipe without a writer is -EPIPE, a device without anything to be read -EAGAIN. */
int io_read_file_at(int dirfd, const char *path, size_t limit_bytes, struct buf *ret);
/* What the errno value of an attempt to open a path means, for a sentence: of one that is closed to this
 * process also whose it is and who we are, of one with a directory that is not there which. As
 * io_read_file_at() fails. */
#define IO_PATH_ERROR_BYTES 400
const char *io_path_error(const char *path, int code, char ret[IO_PATH_ERROR_BYTES]);
/* Appends what is left in `fd` to `ret`; more than `limit_bytes` is -EFBIG. */
int io_read_fd(int fd, size_t limit_bytes, struct buf *ret);
/* Opens (O_WRONLY), writes `text` with one write(2) and closes. For cgroup and proc files. */
int io_write_file_at(int dirfd, const char *path, const char *text);
/* Reads a file that holds one unsigned number, or "max" (UINT64_MAX). */
int io_read_u64_at(int dirfd, const char *path, uint64_t *ret);

/* Parses a whole decimal number: no sign, no blanks, no overflow; else -EINVAL / -ERANGE. */
int io_parse_u64(const char *text, uint64_t *ret);

/* Bytes that came from elsewhere are not yet a bool: any but 0 and 1 would be two truths at once to what a
 * compiler makes of an `if`. */
bool io_is_bool(const bool *place);

/* How many reads of `size` bytes take what a pipe holds now: its other end may write more for ever. */
size_t io_reads_pending(int pipe, size_t size);

/* An anonymous file that holds `data`, positioned at 0. It can be sealed. */
int io_memfd(const char *name, const void *data, size_t size, int *ret_fd);
/* Seals an anonymous file: from now on nobody can change its content or size, whatever descriptors there are.
 * Where the kernel cannot, because somebody else holds one of its pages, `*fd` becomes a sealed copy of its
 * first `size` bytes; -EBUSY: nor can that be had. */
int io_memfd_seal(int *fd, uint64_t size);

#define IO_FDS_MAX 64

/* Sends one message with up to IO_FDS_MAX descriptors over a SOCK_SEQPACKET socket; never raises SIGPIPE. */
int io_send_fds(int sock, const void *data, size_t size, const int *fds, size_t n_fds);
/* Receives one message. `*n_fds` is the room in `fds` before, the number received (close-on-exec) after. A
 * message that was cut, or descriptors that did not fit, is -EMSGSIZE and nothing stays open. Returns the
 * size, 0 at end of file, -errno otherwise (-EAGAIN where the socket is non-blocking and empty). */
ssize_t io_recv_fds(int sock, void *data, size_t size, int *fds, size_t *n_fds);
/* The same, but where this process had no room for a message's descriptors it is received all the same:
 * without any of them, and with `*ret_bare`. */
ssize_t io_recv_fds_or_bare(int sock, void *data, size_t size, int *fds, size_t *n_fds, bool *ret_bare);
