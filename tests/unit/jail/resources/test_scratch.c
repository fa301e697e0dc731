/* The scratch tmpfs from the parent's side, against a program that may have put anything in the place of
 * anything: links, FIFOs, sockets, devices, modes, names, depths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/plan/plan.h"
#include "jail/resources/scratch.h"
#include "tests/unit/jail/outer_id.h"

#define SIZE   (256u << 10)
#define INODES 200u

struct fixture {
    struct outer_id id;
    int scratch; /* a fresh one for each test */
    int work;
};

static int open_pool(void **state)
{
    static struct fixture fixture;
    *state = &fixture;
    return outer_id_take(&fixture.id);
}

static int close_pool(void **state)
{
    outer_id_give_back(&((struct fixture *)*state)->id);
    return 0;
}

static int make_scratch(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    if (scratch_open(SIZE, INODES, f->id.uid, f->id.gid, &f->scratch, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    f->work = openat(f->scratch, SCRATCH_WORK, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return f->work < 0;
}

static int drop_scratch(void **state)
{
    struct fixture *f = *state;
    close(f->work);
    close(f->scratch);
    return 0;
}

static int input(const char *text)
{
    int fd = -1;
    assert_int_equal(io_memfd("input", text, strlen(text), &fd), 0);
    return fd;
}

static int put(const struct fixture *f, const char *path, const char *text, struct err *reterr)
{
    CLEANUP(fd_closep) int from = input(text);
    *reterr = (struct err){0};
    return scratch_put(f->scratch, path, from, 0, strlen(text), f->id.uid, f->id.gid, reterr);
}

static void must_put(const struct fixture *f, const char *path, const char *text)
{
    struct err err;
    if (put(f, path, text, &err) < 0) {
        fail_msg("%s: %s", path, err.text);
    }
}

static void assert_content(const struct fixture *f, const char *path, const char *text)
{
    CLEANUP(fd_closep) int fd = -1;
    uint64_t size = 0;
    assert_int_equal(scratch_open_file(f->scratch, path, &fd, &size), 0);
    assert_int_equal(size, strlen(text));
    char content[4096] = "";
    assert_int_equal(io_read_full(fd, content, sizeof content - 1), strlen(text));
    assert_string_equal(content, text);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

static int open_result(const struct fixture *f, const char *path)
{
    int fd = -1;
    uint64_t size = 77;
    int r = scratch_open_file(f->scratch, path, &fd, &size);
    if (r < 0) {
        assert_int_equal(fd, -1);
        assert_int_equal(size, 77);
    }
    fd_closep(&fd);
    return r;
}

static void test_paths(void **state)
{
    (void)state;
    char long_part[NAME_MAX + 2], long_path[PATH_MAX + 1];
    memset(long_part, 'x', sizeof long_part);
    long_part[NAME_MAX + 1] = '\0';
    for (size_t i = 0; i < sizeof long_path; i++) {
        long_path[i] = i % 2 ? '/' : 'x';
    }
    long_path[PATH_MAX - 255] = '\0';
    const struct {
        const char *path, *words; /* NULL: fit */
    } cases[] = {
        {"a", NULL},
        {"a/b/c.txt", NULL},
        {"...", NULL},
        {"..a/.b/c..", NULL},
        {".hidden", NULL},
        {"\x01 \xff\n", NULL},
        {long_part + 1, NULL},
        {"", "a file name may not be empty"},
        {"/a", "a file name may not start with '/'"},
        {"/", "a file name may not start with '/'"},
        {"a//b", "a file name may not have an empty part"},
        {"a/", "a file name may not have an empty part"},
        {".", "a file name may not have a part '.' or '..'"},
        {"..", "a file name may not have a part '.' or '..'"},
        {"a/../b", "a file name may not have a part '.' or '..'"},
        {"a/.", "a file name may not have a part '.' or '..'"},
        {"../a", "a file name may not have a part '.' or '..'"},
        {long_part, "a part of a file name may have at most 255 bytes"},
        {long_path, "a file name may have at most 3840 bytes"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = {0};
        int r = scratch_check_path(cases[i].path, &err);
        assert_int_equal(r, cases[i].words ? -EINVAL : 0);
        assert_string_equal(err.text, cases[i].words ? cases[i].words : "");
        assert_int_equal(err.kind, cases[i].words ? ERR_INVALID : ERR_NONE);
    }
    long_path[PATH_MAX - 257] = '\0';
    assert_int_equal(scratch_check_path(long_path, NULL), 0);
}

static void test_a_new_one(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *name;
        mode_t mode;
    } directories[] = {{SCRATCH_WORK, S_IFDIR | 0755},
                       {SCRATCH_TMP, S_IFDIR | 01777},
                       {SCRATCH_SHM, S_IFDIR | 01777},
                       {SCRATCH_CODE, S_IFDIR | 0755}};
    for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
        struct stat st;
        assert_int_equal(fstatat(f->scratch, directories[i].name, &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(st.st_mode, directories[i].mode);
        assert_int_equal(st.st_uid, f->id.uid);
        assert_int_equal(st.st_gid, f->id.gid);
    }
    struct stat root;
    assert_int_equal(fstat(f->scratch, &root), 0);
    assert_int_equal(root.st_mode, S_IFDIR | 0755);
    assert_int_equal(root.st_uid, geteuid()); /* the parent's, so that nobody renames what lies in it */
    uint64_t bytes, inodes;
    assert_int_equal(scratch_usage(f->scratch, &bytes, &inodes), 0);
    assert_int_equal(bytes, 0);
    assert_int_equal(inodes, 1 + ARRAY_SIZE(directories));
    assert_int_equal(fcntl(f->scratch, F_GETFD), FD_CLOEXEC);
}

/* To the kernel, 0 and what overflows mean no limit. */
static void test_no_limit_is_no_scratch(void **state)
{
    struct fixture *f = *state;
    static const struct {
        uint64_t size, inodes;
    } cases[] = {{0, 10},          {4096, 0},          {UINT64_MAX, 10},
                 {1ull << 63, 10}, {4096, UINT64_MAX}, {4096, UINT64_MAX - 3}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = {0};
        int fd = -1;
        assert_int_equal(scratch_open(cases[i].size, cases[i].inodes, f->id.uid, f->id.gid, &fd, &err),
                         -EINVAL);
        assert_int_equal(fd, -1);
        assert_int_equal(err.kind, ERR_SETUP);
    }
}

static void test_put(void **state)
{
    struct fixture *f = *state;
    mode_t mask = umask(077); /* the parent's own does not matter */
    must_put(f, "a.txt", "one");
    must_put(f, "d/e/f", "two");
    must_put(f, "d/e/empty", "");
    must_put(f, "d/g", "three");
    must_put(f, "\x01 \xff\n'\"\\", "odd");
    umask(mask);
    assert_content(f, "a.txt", "one");
    assert_content(f, "d/e/f", "two");
    assert_content(f, "d/e/empty", "");
    assert_content(f, "\x01 \xff\n'\"\\", "odd");
    static const char *const paths[] = {"a.txt", "d", "d/e", "d/e/f"};
    static const mode_t modes[] = {S_IFREG | 0644, S_IFDIR | 0755, S_IFDIR | 0755, S_IFREG | 0644};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        struct stat st;
        assert_int_equal(fstatat(f->work, paths[i], &st, 0), 0);
        assert_int_equal(st.st_mode, modes[i]);
        assert_int_equal(st.st_uid, f->id.uid);
        assert_int_equal(st.st_gid, f->id.gid);
    }
    /* A piece of the input. */
    struct err err = {0};
    CLEANUP(fd_closep) int from = input("0123456789");
    assert_int_equal(scratch_put(f->scratch, "piece", from, 3, 4, f->id.uid, f->id.gid, &err), 0);
    assert_content(f, "piece", "3456");
    /* An input that ends before it should. */
    assert_int_equal(scratch_put(f->scratch, "short", from, 8, 4, f->id.uid, f->id.gid, &err), -ENODATA);
    assert_int_equal(err.kind, ERR_SETUP);
}

/* Whoever writes to it does so later, be it in the same tick of the kernel's clock and as many bytes. */
static void test_a_change_at_once_is_seen(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 50; i++) {
        char name[16];
        struct stat before, after;
        snprintf(name, sizeof name, "f%d", i);
        must_put(f, name, "1");
        CLEANUP(fd_closep) int file = openat(f->work, name, O_WRONLY | O_CLOEXEC);
        assert_int_equal(fstat(file, &before), 0);
        assert_int_equal(write(file, "2", 1), 1);
        assert_int_equal(fstat(file, &after), 0);
        assert_true(before.st_mtim.tv_sec != after.st_mtim.tv_sec ||
                    before.st_mtim.tv_nsec != after.st_mtim.tv_nsec);
    }
}

static void test_put_that_cannot_be(void **state)
{
    struct fixture *f = *state;
    struct err err;
    must_put(f, "file", "x");
    must_put(f, "dir/file", "x");
    static const struct {
        const char *path;
        enum err_kind kind;
    } cases[] = {
        {"file", ERR_INVALID},       /* twice */
        {"dir/file", ERR_INVALID},   /* twice */
        {"dir", ERR_INVALID},        /* a file where a directory is */
        {"file/below", ERR_INVALID}, /* a directory where a file is */
        {"../escape", ERR_INVALID},  {"/etc/passwd", ERR_INVALID}, {"", ERR_INVALID},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_true(put(f, cases[i].path, "y", &err) < 0);
        assert_int_equal(err.kind, cases[i].kind);
    }
    assert_content(f, "file", "x");
    assert_content(f, "dir/file", "x");
    assert_int_equal(faccessat(f->scratch, "escape", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

/* Links that lie where a file is to be put: nothing is written through them. */
static void test_put_through_links(void **state)
{
    struct fixture *f = *state;
    struct err err;
    assert_int_equal(symlinkat("/tmp", f->work, "absolute"), 0);
    assert_int_equal(symlinkat("../tmp", f->work, "relative"), 0);
    assert_int_equal(symlinkat(".", f->work, "here"), 0);
    assert_int_equal(symlinkat("target", f->work, "dangling"), 0);
    static const char *const paths[] = {"absolute/x", "relative/x", "here/x", "dangling", "dangling/x"};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        assert_true(put(f, paths[i], "y", &err) < 0);
        assert_int_not_equal(err.kind, ERR_NONE);
    }
    static const char *const untouched[] = {"work/x", "work/target", "tmp/x"};
    for (size_t i = 0; i < ARRAY_SIZE(untouched); i++) {
        assert_int_equal(faccessat(f->scratch, untouched[i], F_OK, AT_SYMLINK_NOFOLLOW), -1);
        assert_int_equal(errno, ENOENT);
    }
}

/* Names of a workspace that was used before are free for the next job's files, but for directories. */
static void test_remove(void **state)
{
    struct fixture *f = *state;
    struct err err;
    must_put(f, "a", "old");
    must_put(f, "d/b", "old");
    assert_int_equal(symlinkat("/etc/passwd", f->work, "link"), 0);
    assert_int_equal(symlinkat("d", f->work, "through"), 0);
    assert_int_equal(mkfifoat(f->work, "fifo", 0600), 0);
    static const char *const names[] = {"a", "d/b", "link", "fifo", "new", "new/dir"};
    for (size_t i = 0; i < ARRAY_SIZE(names) - 1; i++) {
        scratch_remove(f->scratch, names[i]);
        must_put(f, names[i], "new");
        assert_content(f, names[i], "new");
    }
    static const char *const kept[] = {"d", "d/", "through/b", "../tmp", "/", "", "nothing/here"};
    for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
        scratch_remove(f->scratch, kept[i]);
        assert_true(put(f, kept[i], "x", &err) < 0 || strcmp(kept[i], "nothing/here") == 0);
    }
    assert_content(f, "d/b", "new");
    assert_int_equal(faccessat(f->scratch, SCRATCH_TMP, F_OK, AT_SYMLINK_NOFOLLOW), 0);
}

static int replace(const struct fixture *f, const char *path, const char *text, struct err *reterr)
{
    CLEANUP(fd_closep) int from = input(text);
    *reterr = (struct err){0};
    return scratch_replace(f->scratch, path, from, f->id.uid, f->id.gid, reterr);
}

/* All of it or nothing, and through no link. */
static void test_replace(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    CLEANUP(freep) char *big = calloc(1, SIZE + 1);
    assert_non_null(big);
    assert_int_equal(symlinkat("/etc", f->work, "etc"), 0);
    assert_int_equal(symlinkat("/etc/passwd", f->work, "link"), 0);
    assert_int_equal(mkfifoat(f->work, "fifo", 0600), 0);
    static const char *const names[] = {"a", "d/b", "a", "link", "fifo"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char text[8];
        snprintf(text, sizeof text, "%zu", i);
        assert_int_equal(replace(f, names[i], text, &err), 0);
        assert_content(f, names[i], text);
    }
    static const char *const conflicts[] = {"d", "a/below", "etc/x"};
    for (size_t i = 0; i < ARRAY_SIZE(conflicts); i++) {
        assert_true(replace(f, conflicts[i], "x", &err) < 0);
        assert_int_equal(err.kind, ERR_CONFLICT);
    }
    assert_true(replace(f, "../x", "x", &err) < 0);
    assert_int_equal(err.kind, ERR_INVALID);
    memset(big, 'x', SIZE);
    assert_true(replace(f, "a", big, &err) < 0);
    assert_int_equal(err.kind, ERR_TOO_LARGE);
    assert_content(f, "a", "2");
    uint64_t bytes, inodes;
    assert_int_equal(scratch_usage(f->scratch, &bytes, &inodes), 0);
    assert_true(bytes < SIZE / 2); /* nothing is left of what did not fit */
    assert_int_equal(scratch_remove(f->scratch, "a"), 0);
    assert_int_equal(scratch_remove(f->scratch, "a"), -ENOENT);
    assert_int_equal(scratch_remove(f->scratch, "d"), -EISDIR);
}

static void test_full(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    char *big = malloc(SIZE + 4097);
    assert_non_null(big);
    memset(big, 'z', SIZE + 4096);
    big[SIZE + 4096] = '\0';
    assert_int_equal(put(f, "big", big, &err), -ENOSPC);
    assert_int_equal(err.kind, ERR_TOO_LARGE);
    assert_string_equal(err.item, "big");
    assert_int_equal(unlinkat(f->work, "big", 0), 0);
    big[SIZE] = '\0';
    assert_int_equal(put(f, "exact", big, &err), 0);
    free(big);
    uint64_t bytes, inodes;
    assert_int_equal(scratch_usage(f->scratch, &bytes, &inodes), 0);
    assert_int_equal(bytes, SIZE);
    assert_int_equal(put(f, "one more", "x", &err), -ENOSPC);
}

static void test_inode_limit(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    CLEANUP(fd_closep) int script = input("pass");
    assert_int_equal(scratch_put_script(f->scratch, "main.py", script, 4, f->id.uid, f->id.gid, &err), 0);
    unsigned made = 0;
    for (char name[32]; made <= INODES; made++) {
        snprintf(name, sizeof name, "f%u", made);
        if (put(f, name, "", &err) < 0) {
            break;
        }
    }
    assert_int_equal(err.kind, ERR_TOO_LARGE);
    assert_int_equal(made, INODES); /* its directories and the script are not the program's */
    assert_int_equal(put(f, "d/e", "", &err), -ENOSPC);
    assert_int_equal(err.kind, ERR_TOO_LARGE);
    /* Hard links count as well: the listing's time is bounded by the limit. */
    assert_int_equal(linkat(f->work, "f0", f->work, "link", 0), -1);
    assert_int_equal(errno, ENOSPC);
}

/* Everything that is not a plain file, some of it where a plain file is asked for. */
static void make_things(const struct fixture *f)
{
    must_put(f, "plain", "p");
    must_put(f, "dir/inner", "i");
    assert_int_equal(symlinkat("plain", f->work, "link"), 0);
    assert_int_equal(symlinkat("dir", f->work, "linkdir"), 0);
    assert_int_equal(symlinkat("/etc/passwd", f->work, "outside"), 0);
    assert_int_equal(symlinkat("..", f->work, "up"), 0);
    assert_int_equal(symlinkat("/proc/self/root", f->work, "magic"), 0);
    assert_int_equal(symlinkat("loop", f->work, "loop"), 0);
    assert_int_equal(linkat(f->work, "plain", f->work, "hard", 0), 0);
    assert_int_equal(mknodat(f->work, "fifo", S_IFIFO | 0666, 0), 0);
    CLEANUP(fd_closep) int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/socket", f->work);
    assert_int_equal(bind(sock, (struct sockaddr *)&address, sizeof address), 0);
    if (mknodat(f->work, "device", S_IFCHR | 0666, makedev(1, 3)) < 0) {
        assert_int_equal(errno, EPERM); /* an ordinary user makes none */
    }
}

static void test_list(void **state)
{
    struct fixture *f = *state;
    make_things(f);
    must_put(f, "\xff\x01", "odd");
    must_put(f, "dir.txt", "sorts before dir/");
    assert_int_equal(mkdirat(f->work, "empty", 0755), 0);
    struct scratch_list list;
    struct err err = {0};
    assert_int_equal(scratch_list(f->scratch, 100, 1000, &list, &err), 0);
    static const char *const names[] = {"dir.txt", "dir/inner", "hard", "plain", "\xff\x01"};
    assert_int_equal(list.n_files, ARRAY_SIZE(names));
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        assert_string_equal(list.files[i].path, names[i]);
    }
    assert_int_equal(list.files[2].inode, list.files[3].inode);
    assert_int_equal(list.files[4].size_bytes, 3);
    assert_true(list.files[0].mtime.tv_sec > 0 && list.files[0].ctime.tv_sec > 0);
    assert_false(list.truncated);
    scratch_list_free(&list);
    assert_null(list.files);
    scratch_list_free(&list);
}

static void test_list_of_nothing(void **state)
{
    struct fixture *f = *state;
    struct scratch_list list;
    struct err err = {0};
    assert_int_equal(unlinkat(f->scratch, SCRATCH_WORK, AT_REMOVEDIR), 0);
    assert_int_equal(scratch_list(f->scratch, 100, 1000, &list, &err), 0);
    assert_int_equal(list.n_files, 0);
}

static void test_list_limit(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    struct scratch_list list;
    assert_int_equal(scratch_list(f->scratch, 0, 1000, &list, &err), 0);
    assert_int_equal(list.n_files, 0);
    assert_false(list.truncated);
    for (unsigned i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "d%u/f%u", i % 4, i);
        must_put(f, name, "x");
    }
    static const struct {
        size_t limit, n;
        bool truncated;
    } cases[] = {{0, 0, true}, {1, 1, true}, {39, 39, true}, {40, 40, false}, {41, 40, false}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(scratch_list(f->scratch, cases[i].limit, 1000, &list, &err), 0);
        assert_int_equal(list.n_files, cases[i].n);
        assert_int_equal(list.truncated, cases[i].truncated);
        scratch_list_free(&list);
    }
}

/* However many names there are, the look at them ends. */
static void test_list_ends(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    struct scratch_list list;
    for (unsigned i = 0; i < 30; i++) {
        char name[32];
        snprintf(name, sizeof name, "d%u/f", i);
        must_put(f, name, "x");
    }
    static const struct {
        size_t entries;
        bool truncated;
    } cases[] = {{0, true}, {1, true}, {59, true}, {60, false}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(scratch_list(f->scratch, 100, cases[i].entries, &list, &err), 0);
        assert_true(list.n_files <= cases[i].entries / 2);
        assert_int_equal(list.truncated, cases[i].truncated);
        scratch_list_free(&list);
    }
}

/* A chain of `depth` directories named `name`, with a file in the last. */
static void make_chain(int from, const char *name, unsigned depth)
{
    int at = dup(from);
    for (unsigned i = 0; i < depth; i++) {
        assert_int_equal(mkdirat(at, name, 0755), 0);
        int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(at);
        at = next;
    }
    int file = openat(at, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(file >= 0);
    close(file);
    close(at);
}

static void test_deep_trees(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    struct scratch_list list;
    make_chain(f->work, "d", SCRATCH_DEPTH_MAX);
    assert_int_equal(scratch_list(f->scratch, 100, 1000, &list, &err), 0);
    assert_int_equal(list.n_files, 1);
    assert_false(list.truncated);
    assert_int_equal(strlen(list.files[0].path), SCRATCH_DEPTH_MAX * 2 + 4);
    assert_int_equal(open_result(f, list.files[0].path), 0);
    scratch_list_free(&list);
    make_chain(f->work, "e", SCRATCH_DEPTH_MAX + 1);
    assert_int_equal(scratch_list(f->scratch, 100, 1000, &list, &err), 0);
    assert_true(list.truncated);
    scratch_list_free(&list);
}

/* Fewer parts than the depth allows, but a path that no system call takes. */
static void test_long_trees(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    struct scratch_list list;
    char name[NAME_MAX + 1];
    memset(name, 'n', NAME_MAX);
    name[NAME_MAX] = '\0';
    make_chain(f->work, name, 15); /* 15 * 256 + "file" */
    assert_int_equal(scratch_list(f->scratch, 100, 1000, &list, &err), 0);
    assert_int_equal(list.n_files, 1);
    assert_int_equal(strlen(list.files[0].path), 15 * 256 + 4);
    scratch_list_free(&list);
    name[0] = 'm';
    make_chain(f->work, name, 17);
    assert_int_equal(scratch_list(f->scratch, 100, 1000, &list, &err), 0);
    assert_true(list.truncated);
    scratch_list_free(&list);
}

/* What the program has shut against itself is not shut against the parent. */
static void test_modes_do_not_hide(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    must_put(f, "dir/inner", "secret");
    assert_int_equal(fchmodat(f->work, "dir/inner", 0, 0), 0);
    assert_int_equal(fchmodat(f->work, "dir", 0, 0), 0);
    assert_int_equal(fchmod(f->work, 0), 0);
    struct scratch_list list;
    assert_int_equal(scratch_list(f->scratch, 100, 1000, &list, &err), 0);
    assert_int_equal(list.n_files, 1);
    scratch_list_free(&list);
    assert_content(f, "dir/inner", "secret");
}

static void test_open_file(void **state)
{
    struct fixture *f = *state;
    make_things(f);
    assert_content(f, "plain", "p");
    assert_content(f, "hard", "p");
    assert_content(f, "dir/inner", "i");
    static const struct {
        const char *path;
        int r;
    } cases[] = {
        {"", -ENOENT},
        {"nothing", -ENOENT},
        {"dir/nothing", -ENOENT},
        {"plain/below", -ENOTDIR},
        {"dir", -EINVAL},
        {".", -EINVAL},
        {"link", -ELOOP},
        {"linkdir/inner", -ELOOP},
        {"outside", -ELOOP},
        {"magic/etc/passwd", -ELOOP},
        {"up/tmp", -ELOOP},
        {"loop", -ELOOP},
        {"..", -EXDEV},
        {"../work/plain", -EXDEV},
        {"dir/../../tmp", -EXDEV},
        {"/etc/passwd", -EXDEV},
        {"fifo", -EINVAL}, /* at once, although nobody writes to it */
        {"socket", -ENXIO},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int r = open_result(f, cases[i].path);
        if (r != cases[i].r) {
            fail_msg("%s: %d (%s)", cases[i].path, r, strerror(-r));
        }
    }
    assert_true(open_result(f, "device") < 0); /* EACCES: the mount is nodev; as a user: there is none */
}

/* Holes cost nothing, so a size says nothing about what there is to read. */
static void test_sparse_files(void **state)
{
    struct fixture *f = *state;
    must_put(f, "sparse", "head");
    CLEANUP(fd_closep) int fd = openat(f->work, "sparse", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, 1LL << 40), 0);
    struct scratch_list list;
    struct err err = {0};
    assert_int_equal(scratch_list(f->scratch, 100, 1000, &list, &err), 0);
    assert_int_equal(list.files[0].size_bytes, 1ull << 40);
    scratch_list_free(&list);
    uint64_t bytes, inodes;
    assert_int_equal(scratch_usage(f->scratch, &bytes, &inodes), 0);
    assert_true(bytes <= 8192);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_scratch, drop_scratch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        TEST(test_a_new_one),
        TEST(test_no_limit_is_no_scratch),
        TEST(test_put),
        TEST(test_a_change_at_once_is_seen),
        TEST(test_put_that_cannot_be),
        TEST(test_put_through_links),
        TEST(test_remove),
        TEST(test_replace),
        TEST(test_full),
        TEST(test_list_ends),
        TEST(test_inode_limit),
        TEST(test_list),
        TEST(test_list_of_nothing),
        TEST(test_list_limit),
        TEST(test_deep_trees),
        TEST(test_long_trees),
        TEST(test_modes_do_not_hide),
        TEST(test_open_file),
        TEST(test_sparse_files),
    };
    return cmocka_run_group_tests(tests, open_pool, close_pool);
}
