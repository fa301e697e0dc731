/* Whole reads and writes, numbers, and descriptors over sockets, each with what can go wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/io.h"

#define BIG (1u << 20)

static void on_signal(int number)
{
    (void)number;
}

/* More than a pipe holds, the other side taking small bites, signals flying: all or an error. */
static void test_whole_transfers(void **state)
{
    (void)state;
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    char *data = malloc(BIG);
    assert_non_null(data);
    for (unsigned i = 0; i < BIG; i++) {
        data[i] = (char)(i * 31);
    }
    pid_t writer = fork();
    if (writer == 0) {
        close(pipes[0]);
        _exit(io_write_full(pipes[1], data, BIG) == 0 ? 0 : 1);
    }
    close(pipes[1]);
    char *got = malloc(BIG + 1);
    assert_non_null(got);
    size_t done = 0;
    while (done < BIG / 2) {
        ssize_t n = io_read_full(pipes[0], got + done, 1000);
        assert_int_equal(n, 1000);
        done += 1000;
        kill(writer, SIGUSR1);
    }
    assert_int_equal(io_read_full(pipes[0], got + done, BIG + 1 - done), BIG - done);
    assert_memory_equal(got, data, BIG);
    assert_int_equal(io_read_full(pipes[0], got, 1), 0);
    close(pipes[0]);
    int wstatus;
    assert_int_equal(waitpid(writer, &wstatus, 0), writer);
    assert_int_equal(wstatus, 0);
    free(data);
    free(got);
    assert_int_equal(io_read_full(-1, &wstatus, 1), -EBADF);
    assert_int_equal(io_write_full(-1, &wstatus, 1), -EBADF);
    assert_int_equal(io_write_full(-1, &wstatus, 0), 0);
}

static char directory[] = "/tmp/test_io.XXXXXX";
static int dirfd_;

static int make_directory(void **state)
{
    (void)state;
    if (!mkdtemp(directory)) {
        return -1;
    }
    dirfd_ = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dirfd_ < 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlinkat(dirfd_, "file", 0);
    unlinkat(dirfd_, "link", 0);
    close(dirfd_);
    return rmdir(directory);
}

static void make_file(const char *text, size_t size)
{
    int fd = openat(dirfd_, "file", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(io_write_full(fd, text, size), 0);
    close(fd);
}

static void test_read_file(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 65536, 200000};
    char *data = calloc(1, 200000);
    assert_non_null(data);
    memset(data, 'y', 200000);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        make_file(data, sizes[i]);
        CLEANUP(buf_free) struct buf buf = BUF_INIT;
        assert_int_equal(io_read_file_at(dirfd_, "file", sizes[i], &buf), 0);
        assert_int_equal(buf.len, sizes[i]);
        assert_int_equal(buf.data[buf.len], '\0');
        if (sizes[i] > 0) {
            buf_free(&buf);
            assert_int_equal(io_read_file_at(dirfd_, "file", sizes[i] - 1, &buf), -EFBIG);
        }
    }
    free(data);
    /* Behind what is there already. */
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    buf_puts(&buf, "a");
    make_file("b", 1);
    assert_int_equal(io_read_file_at(dirfd_, "file", 100, &buf), 0);
    assert_string_equal(buf.data, "ab");
    assert_int_equal(io_read_file_at(dirfd_, "nothing", 100, &buf), -ENOENT);
    assert_int_equal(io_read_file_at(dirfd_, ".", 100, &buf), -EISDIR);
    assert_string_equal(buf.data, "ab");
}

/* Writes to a pipe that the parent is about to read, in two goes, and ends. */
static pid_t start_writer(int inherited)
{
    pid_t pid = fork();
    if (pid == 0) {
        int fd = inherited >= 0 ? inherited : openat(dirfd_, "pipe", O_WRONLY | O_CLOEXEC);
        bool ok = write(fd, "first", 5) == 5 && usleep(20000) == 0 && write(fd, " second", 7) == 7;
        _exit(ok ? 0 : 1);
    }
    return pid;
}

static void expect_ended_well(pid_t pid)
{
    int wstatus;
    assert_int_equal(waitpid(pid, &wstatus, 0), pid);
    assert_int_equal(wstatus, 0);
}

/* What is missing is named where it is not the path itself; what is closed is told with its owner and ours.
 */
static void test_path_error(void **state)
{
    (void)state;
    char why[IO_PATH_ERROR_BYTES], expected[IO_PATH_ERROR_BYTES];
    struct stat st;
    assert_string_equal(io_path_error("/no-such/a/b", ENOENT, why),
                        "No such file or directory: there is no /no-such");
    assert_string_equal(io_path_error("/no-such", ENOENT, why), "No such file or directory");
    assert_string_equal(io_path_error("", ENOENT, why), "No such file or directory");
    assert_string_equal(io_path_error("/proc/self/mem", EISDIR, why), "Is a directory");
    assert_int_equal(stat("/etc/passwd", &st), 0);
    snprintf(expected, sizeof expected,
             "Permission denied: /etc/passwd belongs to uid %u and gid %u and has mode %04o, and this is uid "
             "%u and "
             "gid %u; chown or chmod it",
             st.st_uid, st.st_gid, st.st_mode & 07777u, geteuid(), getegid());
    assert_string_equal(io_path_error("/etc/passwd", EACCES, why), expected);
    /* One that cannot be made: the directory. */
    assert_non_null(strstr(io_path_error("/etc/no-such", EACCES, why), ": /etc belongs to uid "));
}

/* One that nobody writes to would be waited for without end. */
static void test_read_named_pipe(void **state)
{
    (void)state;
    assert_int_equal(mkfifoat(dirfd_, "pipe", 0600), 0);
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    assert_int_equal(io_read_file_at(dirfd_, "pipe", 100, &buf), -EPIPE);
    char why[IO_PATH_ERROR_BYTES];
    assert_string_equal(io_path_error("pipe", EPIPE, why), "it is a pipe that nobody writes to");
    int keep = openat(dirfd_, "pipe", O_RDWR | O_CLOEXEC);     /* the writer need not wait for a reader, */
    int reader = openat(dirfd_, "pipe", O_RDONLY | O_CLOEXEC); /* nor is it ever without one */
    assert_int_equal(write(keep, "before ", 7), 7);
    pid_t writer = start_writer(-1);
    char first[7 + 5];
    assert_int_equal(io_read_full(keep, first, sizeof first), sizeof first); /* the writer is there */
    close(keep);
    assert_int_equal(io_read_file_at(dirfd_, "pipe", 7, &buf), 0);
    assert_string_equal(buf.data, " second");
    expect_ended_well(writer);
    close(reader);
    assert_int_equal(unlinkat(dirfd_, "pipe", 0), 0);
}

static int read_pipe_of(const char *text, size_t limit_bytes, bool live, struct buf *ret)
{
    int ends[2];
    char path[32];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_int_equal(io_write_full(ends[1], text, strlen(text)), 0);
    pid_t writer = live ? start_writer(ends[1]) : -1;
    close(ends[1]);
    int r = io_read_file_at(AT_FDCWD, path, limit_bytes, ret);
    close(ends[0]);
    if (live) {
        expect_ended_well(writer);
    }
    return r;
}

/* As a shell's <(...) makes them: such a pipe may have ended before it is opened, and is then what it held.
 */
static void test_read_pipe_without_a_name(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    buf_puts(&buf, "left over");
    buf.len = 0;
    assert_int_equal(read_pipe_of("", 100, false, &buf), 0);
    assert_string_equal(buf.data, "");
    assert_int_equal(read_pipe_of("all", 3, false, &buf), 0);
    assert_string_equal(buf.data, "all");
    assert_int_equal(read_pipe_of(", ", 100, true, &buf), 0);
    assert_string_equal(buf.data, "all, first second");
    assert_int_equal(read_pipe_of("all", 2, false, &buf), -EFBIG);
    assert_int_equal(read_pipe_of("a", 0, false, &buf), -EFBIG);
}

static void test_read_what_is_no_file(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    assert_int_equal(io_read_file_at(AT_FDCWD, "/dev/null", 100, &buf), 0);
    assert_int_equal(buf.len, 0);
    assert_int_equal(io_read_file_at(AT_FDCWD, "/dev/zero", 100, &buf), -EFBIG);
    buf_free(&buf);
    assert_int_equal(io_read_file_at(AT_FDCWD, "/proc/self/comm", 100, &buf), 0);
    assert_true(buf.len > 0);
}

static void test_write_file(void **state)
{
    (void)state;
    make_file("12345", 5);
    assert_int_equal(io_write_file_at(dirfd_, "file", "abc"), 0);
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    assert_int_equal(io_read_file_at(dirfd_, "file", 100, &buf), 0);
    assert_string_equal(buf.data, "abc45"); /* neither made nor cut: files of /proc and cgroups are not */
    assert_int_equal(io_write_file_at(dirfd_, "nothing", "x"), -ENOENT);
    assert_int_equal(io_write_file_at(dirfd_, "nothing/x", "x"), -ENOENT);
}

static void test_read_number(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int r;
        uint64_t value;
    } cases[] = {
        {"0\n", 0, 0},
        {"17", 0, 17},
        {"max\n", 0, UINT64_MAX},
        {"18446744073709551615\n", 0, UINT64_MAX},
        {"18446744073709551616\n", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"\n", -EINVAL, 0},
        {"1 2\n", -EINVAL, 0},
        {"maximum\n", -EINVAL, 0},
        {"-1\n", -EINVAL, 0},
        /* Longer than any number of the kernel's: not read as its beginning. */
        {"00000000000000000000000000000000000000001\n", -ERANGE, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        make_file(cases[i].text, strlen(cases[i].text));
        uint64_t value = 0;
        assert_int_equal(io_read_u64_at(dirfd_, "file", &value), cases[i].r);
        assert_int_equal(value, cases[i].value);
    }
    uint64_t value;
    assert_int_equal(io_read_u64_at(dirfd_, "nothing", &value), -ENOENT);
}

static void test_parse_number(void **state)
{
    (void)state;
    uint64_t value = 9;
    assert_int_equal(io_parse_u64("0", &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(io_parse_u64("007", &value), 0);
    assert_int_equal(value, 7);
    assert_int_equal(io_parse_u64("18446744073709551615", &value), 0);
    assert_true(value == UINT64_MAX);
    value = 9;
    static const char *const bad[] = {"", " 1", "1 ", "+1", "-1", "0x10", "1e3", "1.0", "١", "max"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(io_parse_u64(bad[i], &value), -EINVAL);
    }
    assert_int_equal(io_parse_u64("18446744073709551616", &value), -ERANGE);
    assert_int_equal(io_parse_u64("18446744073709551620", &value), -ERANGE);
    assert_int_equal(io_parse_u64("99999999999999999999999", &value), -ERANGE);
    assert_int_equal(value, 9);
}

/* Whoever holds a page of it keeps the kernel from sealing it, not us. */
static void test_seal(void **state)
{
    (void)state;
    for (int held = 0; held < 2; held++) {
        char text[8];
        CLEANUP(fd_closep) int fd = -1, out = -1, in = -1;
        int ends[2];
        assert_int_equal(io_memfd("test", "hello", 5, &fd), 0);
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        out = ends[0];
        in = ends[1];
        int before = fd;
        if (held) {
            loff_t at = 0;
            assert_int_equal(splice(fd, &at, in, NULL, 5, 0), 5);
            assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
            assert_int_equal(errno, EBUSY);
        }
        assert_int_equal(io_memfd_seal(&fd, 5), 0);
        assert_int_equal(fd != before, held);
        assert_int_equal(pread(fd, text, sizeof text, 0), 5);
        assert_memory_equal(text, "hello", 5);
        assert_int_equal(pwrite(fd, "x", 1, 0), -1);
        assert_int_equal(ftruncate(fd, 0), -1);
    }
}

static void test_memfd(void **state)
{
    (void)state;
    CLEANUP(fd_closep) int fd = -1;
    assert_int_equal(io_memfd("test", "hello", 5, &fd), 0);
    char text[10] = "";
    assert_int_equal(io_read_full(fd, text, sizeof text), 5);
    assert_string_equal(text, "hello");
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
}

static size_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    size_t count = 0;
    while (readdir(dir)) {
        count++;
    }
    closedir(dir);
    return count;
}

static void make_sockets(int sockets[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
}

static void test_send_descriptors(void **state)
{
    (void)state;
    int sockets[2], pipes[2], got[4];
    make_sockets(sockets);
    assert_int_equal(pipe2(pipes, 0), 0);
    assert_int_equal(io_send_fds(sockets[0], "message", 8, pipes, 2), 0);
    char text[20];
    size_t n = ARRAY_SIZE(got);
    assert_int_equal(io_recv_fds(sockets[1], text, sizeof text, got, &n), 8);
    assert_string_equal(text, "message");
    assert_int_equal(n, 2);
    assert_int_equal(fcntl(got[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(io_write_full(got[1], "x", 1), 0);
    assert_int_equal(io_read_full(pipes[0], text, 1), 1);
    for (size_t i = 0; i < 2; i++) {
        close(got[i]);
        close(pipes[i]);
    }
    n = ARRAY_SIZE(got);
    assert_int_equal(io_recv_fds(sockets[1], text, sizeof text, got, &n), -EAGAIN);
    assert_int_equal(io_send_fds(sockets[0], "none", 5, NULL, 0), 0);
    assert_int_equal(io_recv_fds(sockets[1], text, sizeof text, got, &n), 5);
    assert_int_equal(n, 0);
    close(sockets[0]);
    n = ARRAY_SIZE(got);
    assert_int_equal(io_recv_fds(sockets[1], text, sizeof text, got, &n), 0);
    assert_int_equal(n, 0);
    /* A broken socket is an error, not a signal. */
    assert_int_equal(io_send_fds(sockets[1], "x", 1, NULL, 0), -EPIPE);
    close(sockets[1]);
}

/* A message that was cut, or more descriptors than there is room for: an error, and nothing stays open. */
static void test_receive_too_much(void **state)
{
    (void)state;
    int sockets[2], many[IO_FDS_MAX], got[IO_FDS_MAX];
    make_sockets(sockets);
    for (size_t i = 0; i < IO_FDS_MAX; i++) {
        many[i] = sockets[0];
    }
    size_t before = count_fds();
    char text[4];
    static const struct {
        size_t size, sent, room;
    } cases[] = {{8, 0, 4}, {8, 2, 4}, {4, 2, 1}, {4, 1, 0}, {4, IO_FDS_MAX, IO_FDS_MAX - 1}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(io_send_fds(sockets[0], "12345678", cases[i].size, many, cases[i].sent), 0);
        size_t n = cases[i].room;
        memset(got, -1, sizeof got);
        assert_int_equal(io_recv_fds(sockets[1], text, sizeof text, got, &n), -EMSGSIZE);
        assert_int_equal(n, 0);
        for (size_t k = 0; k < IO_FDS_MAX; k++) {
            assert_int_equal(got[k], -1); /* or a caller would close a number twice */
        }
    }
    assert_int_equal(count_fds(), before);
    /* As many as are allowed, and one more. */
    assert_int_equal(io_send_fds(sockets[0], "x", 1, many, IO_FDS_MAX), 0);
    size_t n = IO_FDS_MAX;
    assert_int_equal(io_recv_fds(sockets[1], text, sizeof text, got, &n), 1);
    assert_int_equal(n, IO_FDS_MAX);
    for (size_t i = 0; i < n; i++) {
        close(got[i]);
    }
    assert_int_equal(io_send_fds(sockets[0], "x", 1, many, IO_FDS_MAX + 1), -EINVAL);
    /* No room in the table of descriptors: the kernel leaves some out and says so. */
    assert_int_equal(io_send_fds(sockets[0], "x", 1, many, 3), 0);
    struct rlimit limit, low;
    getrlimit(RLIMIT_NOFILE, &limit);
    int next = dup(0);
    close(next);
    low = limit;
    low.rlim_cur = (rlim_t)next + 1;
    setrlimit(RLIMIT_NOFILE, &low);
    n = 3;
    ssize_t r = io_recv_fds(sockets[1], text, sizeof text, got, &n);
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_int_equal(r, -EMSGSIZE);
    assert_int_equal(count_fds(), before);
    /* Or the message comes without any of them. */
    bool bare = false;
    assert_int_equal(io_send_fds(sockets[0], "bare", 4, many, 3), 0);
    setrlimit(RLIMIT_NOFILE, &low);
    n = 3;
    r = io_recv_fds_or_bare(sockets[1], text, sizeof text, got, &n, &bare);
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_int_equal(r, 4);
    assert_true(bare && n == 0);
    assert_memory_equal(text, "bare", 4);
    assert_int_equal(count_fds(), before);
    assert_int_equal(io_send_fds(sockets[0], "x", 1, many, 1), 0);
    n = 3;
    assert_int_equal(io_recv_fds_or_bare(sockets[1], text, sizeof text, got, &n, &bare), 1);
    assert_true(!bare && n == 1);
    close(got[0]);
    close(sockets[0]);
    close(sockets[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_transfers),
        cmocka_unit_test(test_read_file),
        cmocka_unit_test(test_write_file),
        cmocka_unit_test(test_read_number),
        cmocka_unit_test(test_parse_number),
        cmocka_unit_test(test_memfd),
        cmocka_unit_test(test_seal),
        cmocka_unit_test(test_send_descriptors),
        cmocka_unit_test(test_receive_too_much),
        cmocka_unit_test(test_path_error),
        cmocka_unit_test(test_read_named_pipe),
        cmocka_unit_test(test_read_pipe_without_a_name),
        cmocka_unit_test(test_read_what_is_no_file),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
