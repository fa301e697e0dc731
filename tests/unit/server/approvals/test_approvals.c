/* server/approvals/approvals.c, server/approvals/disk.c: what is kept, what a new server makes of what it
 * finds, and what is never begun twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "server/approvals/approvals.h"
#include "server/kit/log.h"

struct place {
    char directory[64];
    struct loop *loop;
    struct log *log;
    int log_fd; /* what it has written */
    struct server_config config;
    unsigned changes[APPROVAL_STATE_COUNT];
};

static void on_changed(void *arg, const struct approval *approval)
{
    ((struct place *)arg)->changes[approval->state]++;
}

static struct approvals *open_approvals(struct place *place, bool on_disk, struct err *err)
{
    const struct approvals_options options = {.directory = on_disk ? place->directory : "",
                                              .loop = place->loop,
                                              .log = &place->log,
                                              .changed = on_changed,
                                              .arg = place};
    struct approvals *approvals = NULL;
    if (approvals_new(&options, &place->config, &approvals, err) < 0) {
        return NULL;
    }
    approvals_resume(approvals);
    return approvals;
}

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    strcpy(place->directory, "/tmp/immure-approvals-XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    place->config = (struct server_config){.approval_expiry_ms = 3600000,
                                           .kept_job_ttl_ms = 3600000,
                                           .max_approvals = 3,
                                           .max_approvals_per_key = 2,
                                           .max_approval_job_bytes = 100,
                                           .max_approval_bytes = 150};
    place->log_fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(place->log_fd >= 0);
    place->log = log_new(place->log_fd, LOG_FORMAT_LOGFMT, LOG_DEBUG, "warden");
    assert_int_equal(loop_new(&place->loop, NULL), 0);
    *state = place;
    return 0;
}

static void empty_directory(const char *path)
{
    CLEANUP(dir_closep) DIR *dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        unlinkat(dirfd(dir), entry->d_name, 0);
    }
}

static int remove_place(void **state)
{
    struct place *place = *state;
    empty_directory(place->directory);
    assert_int_equal(rmdir(place->directory), 0);
    loop_free(place->loop);
    log_free(place->log);
    close(place->log_fd);
    free(place);
    return 0;
}

static struct approval make_approval(unsigned char owner, const char *team)
{
    struct approval approval = {.key = "k", .owner = {owner}, .policy = "held", .runtime = "python"};
    snprintf(approval.team, sizeof approval.team, "%s", team);
    memset(approval.policy_sha256, 'a', SHA256_HEX - 1);
    memset(approval.code_sha256, 'b', SHA256_HEX - 1);
    return approval;
}

static struct approval_entry *add(struct approvals *approvals, unsigned char owner, size_t bytes,
                                  struct err *err)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    struct approval approval = make_approval(owner, "");
    struct approval_entry *entry = NULL;
    for (size_t i = 0; i < bytes; i++) {
        buf_putc(&packed, (char)('a' + i % 26));
    }
    approvals_add(approvals, &approval, &packed, &entry, err);
    return entry;
}

static void test_each_step_outlives_the_server(void **state)
{
    struct place *place = *state;
    static const struct {
        enum approval_state steps[3], after;
    } lives[] = {
        {{APPROVAL_PENDING, APPROVAL_PENDING}, APPROVAL_PENDING},
        {{APPROVAL_APPROVED, APPROVAL_PENDING}, APPROVAL_APPROVED},
        {{APPROVAL_REJECTED, APPROVAL_PENDING}, APPROVAL_REJECTED},
        {{APPROVAL_EXPIRED, APPROVAL_PENDING}, APPROVAL_EXPIRED},
        /* Begun, and nobody knows how far it came: never again. */
        {{APPROVAL_APPROVED, APPROVAL_RUNNING, APPROVAL_PENDING}, APPROVAL_LOST},
        {{APPROVAL_APPROVED, APPROVAL_LOST, APPROVAL_PENDING}, APPROVAL_LOST},
    };
    for (size_t i = 0; i < ARRAY_SIZE(lives); i++) {
        struct err err = {0};
        struct approvals *approvals = open_approvals(place, true, &err);
        assert_non_null(approvals);
        struct approval_entry *entry = add(approvals, (unsigned char)(10 + i), 10, &err);
        assert_non_null(entry);
        for (size_t j = 0; j < 3 && lives[i].steps[j] != APPROVAL_PENDING; j++) {
            assert_int_equal(approvals_move(entry, lives[i].steps[j], "boss", "why", &err), 0);
        }
        char id[APPROVAL_ID_BYTES];
        memcpy(id, entry->approval.id, sizeof id);
        approvals_free(approvals);
        approvals = open_approvals(place, true, &err);
        assert_non_null(approvals);
        entry = approvals_find(approvals, id);
        assert_non_null(entry);
        assert_int_equal(entry->approval.state, lives[i].after);
        CLEANUP(buf_free) struct buf job = BUF_INIT;
        bool open = lives[i].after == APPROVAL_PENDING || lives[i].after == APPROVAL_APPROVED;
        assert_int_equal(approvals_read_job(entry, &job, &err) == 0, open);
        assert_int_equal(job.len, open ? 10 : 0);
        if (lives[i].after == APPROVAL_PENDING) {
            assert_int_equal(approvals_move(entry, APPROVAL_REJECTED, "boss", NULL, NULL), 0);
        }
        approvals_free(approvals);
    }
}

static void test_no_step_back(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    struct approvals *approvals = open_approvals(place, false, &err);
    struct approval_entry *entry = add(approvals, 1, 10, &err);
    assert_int_equal(approvals_move(entry, APPROVAL_REJECTED, "boss", "no", &err), 0);
    assert_true(approvals_move(entry, APPROVAL_APPROVED, "boss", NULL, &err) < 0);
    assert_int_equal(err.kind, ERR_CONFLICT);
    assert_string_equal(err.text, "the job is rejected");
    assert_string_equal(entry->approval.reason, "no");
    struct approvals_count count = approvals_count(approvals);
    assert_int_equal(count.pending, 0);
    assert_int_equal(count.rejected, 1);
    assert_int_equal(count.approved, 0);
    assert_int_equal(place->changes[APPROVAL_PENDING], 1);
    assert_int_equal(place->changes[APPROVAL_REJECTED], 1);
    approvals_free(approvals);
}

static void test_limits(void **state)
{
    struct place *place = *state;
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        struct err err = {0};
        struct approvals *approvals = open_approvals(place, on_disk, &err);
        assert_null(add(approvals, 1, 101, &err));
        assert_int_equal(err.kind, ERR_TOO_LARGE);
        err_clear(&err);
        struct approval_entry *first = add(approvals, 1, 50, &err);
        assert_non_null(first);
        assert_non_null(add(approvals, 1, 50, &err));
        assert_null(add(approvals, 1, 1, &err));
        assert_int_equal(err.kind, ERR_RATE);
        err_clear(&err);
        assert_null(add(approvals, 2, 51, &err)); /* bytes of all */
        assert_int_equal(err.kind, ERR_BUSY);
        err_clear(&err);
        assert_non_null(add(approvals, 2, 50, &err));
        assert_null(add(approvals, 3, 1, &err)); /* all */
        assert_int_equal(err.kind, ERR_BUSY);
        err_clear(&err);
        assert_int_equal(approvals_move(first, APPROVAL_REJECTED, "boss", NULL, &err), 0);
        assert_non_null(add(approvals, 1, 50, &err));
        for (struct approval_entry *entry = approvals_first(approvals); entry; entry = entry->next) {
            approvals_move(entry, APPROVAL_REJECTED, "boss", NULL, NULL);
        }
        approvals_free(approvals);
    }
}

static void test_time_goes_by(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    place->config.approval_expiry_ms = 20;
    place->config.kept_job_ttl_ms = 20;
    struct approvals *approvals = open_approvals(place, true, &err);
    assert_non_null(add(approvals, 1, 10, &err));
    for (int i = 0; i < 3000 && approvals_first(approvals); i++) {
        assert_int_equal(loop_once(place->loop, 10, NULL), 0);
    }
    assert_null(approvals_first(approvals));
    assert_int_equal(place->changes[APPROVAL_EXPIRED], 1);
    assert_int_equal(approvals_count(approvals).expired, 1);
    approvals_free(approvals);
    approvals = open_approvals(place, true, &err);
    assert_null(approvals_first(approvals));
    approvals_free(approvals);
}

static void test_a_job_that_is_another(void **state)
{
    struct place *place = *state;
    char path[128];
    struct err err = {0};
    struct approvals *approvals = open_approvals(place, true, &err);
    struct approval_entry *entry = add(approvals, 1, 10, &err);
    CLEANUP(buf_free) struct buf job = BUF_INIT;
    snprintf(path, sizeof path, "%s/%s.job", place->directory, entry->approval.id);
    CLEANUP(fd_closep) int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(io_write_full(fd, "b", 1), 0);
    assert_true(approvals_read_job(entry, &job, &err) < 0);
    assert_string_equal(err.text, "the job that waits for approval is another one");
    approvals_free(approvals);
}

static void test_broken_files_run_nothing(void **state)
{
    struct place *place = *state;
    char path[128];
    struct err err = {0};
    struct approvals *approvals = open_approvals(place, true, &err);
    struct approval_entry *entry = add(approvals, 1, 10, &err);
    assert_int_equal(approvals_move(entry, APPROVAL_APPROVED, "boss", NULL, &err), 0);
    snprintf(path, sizeof path, "%s/%s", place->directory, entry->approval.id);
    approvals_free(approvals);
    assert_int_equal(truncate(path, 20), 0);
    approvals = open_approvals(place, true, &err);
    assert_non_null(approvals);
    assert_null(approvals_first(approvals));
    assert_int_equal(access(path, F_OK), 0); /* for somebody to look at */
    approvals_free(approvals);
}

/* A server that dies after a step may leave the job, which nobody needs any more. */
static void test_no_job_is_left(void **state)
{
    struct place *place = *state;
    static const enum approval_state ends[] = {APPROVAL_REJECTED, APPROVAL_RUNNING};
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        char path[128];
        struct err err = {0};
        struct approvals *approvals = open_approvals(place, true, &err);
        struct approval_entry *entry = add(approvals, (unsigned char)(1 + i), 10, &err);
        assert_non_null(entry);
        snprintf(path, sizeof path, "%s/%s.job", place->directory, entry->approval.id);
        if (ends[i] == APPROVAL_RUNNING) {
            assert_int_equal(approvals_move(entry, APPROVAL_APPROVED, "boss", NULL, &err), 0);
        }
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(approvals_move(entry, ends[i], "boss", NULL, &err), 0);
        assert_int_not_equal(access(path, F_OK), 0);
        approvals_free(approvals);
        CLEANUP(fd_closep) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        approvals = open_approvals(place, true, &err);
        assert_int_not_equal(access(path, F_OK), 0);
        approvals_free(approvals);
    }
}

static void test_too_late_is_too_late(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    struct approvals *approvals = open_approvals(place, true, &err);
    place->config.approval_expiry_ms = 0;
    struct approval_entry *entry = add(approvals, 1, 10, &err); /* the timer has not been heard yet */
    assert_true(approvals_move(entry, APPROVAL_APPROVED, "boss", NULL, &err) < 0);
    assert_int_equal(err.kind, ERR_CONFLICT);
    assert_string_equal(err.text, "the job is expired");
    assert_int_equal(entry->approval.state, APPROVAL_PENDING);
    assert_int_equal(approvals_move(entry, APPROVAL_REJECTED, "boss", NULL, NULL), 0);
    approvals_free(approvals);
}

/* In a process of its own: fsync() of the directory fails from now on. */
static void break_fsync(const char *directory)
{
    char link[64], target[128];
    for (int fd = 3; fd < 64; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, target, sizeof target);
        if (length == (ssize_t)strlen(directory) && memcmp(target, directory, (size_t)length) == 0) {
            struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsync, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)fd, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            };
            const struct sock_fprog program = {.len = ARRAY_SIZE(filter), .filter = filter};
            if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0) {
                return;
            }
        }
    }
    _exit(100);
}

/* The approver is told that it could not be noted: a new server must not run it. */
static void test_a_step_that_is_not_durable_is_taken_back(void **state)
{
    struct place *place = *state;
    char id[APPROVAL_ID_BYTES];
    struct err err = {0};
    struct approvals *approvals = open_approvals(place, true, &err);
    struct approval_entry *entry = add(approvals, 1, 10, &err);
    assert_non_null(entry);
    memcpy(id, entry->approval.id, sizeof id);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        break_fsync(place->directory);
        int r = approvals_move(entry, APPROVAL_APPROVED, "boss", NULL, NULL);
        _exit(r == -EIO && entry->approval.state == APPROVAL_PENDING ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    approvals_free(approvals);
    approvals = open_approvals(place, true, &err);
    entry = approvals_find(approvals, id);
    assert_non_null(entry);
    assert_int_equal(entry->approval.state, APPROVAL_PENDING);
    approvals_free(approvals);
}

static unsigned logged(const struct place *place, const char *event)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    unsigned n = 0;
    assert_true(lseek(place->log_fd, 0, SEEK_SET) == 0);
    assert_int_equal(io_read_fd(place->log_fd, 1 << 20, &text), 0);
    for (const char *at = text.data; at && (at = strstr(at, event)); at++) {
        n++;
    }
    return n;
}

/* A full disk is no reason to be busy. */
static void test_what_cannot_expire_is_tried_again_later(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    struct approvals *approvals = open_approvals(place, true, &err);
    place->config.approval_expiry_ms = 1;
    struct approval_entry *first = add(approvals, 1, 10, &err);
    assert_non_null(first);
    empty_directory(place->directory);
    assert_int_equal(rmdir(place->directory), 0);
    for (int i = 0; i < 3000 && logged(place, "approval_not_expired") == 0; i++) {
        assert_int_equal(loop_once(place->loop, 10, NULL), 0);
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(loop_once(place->loop, 10, NULL), 0);
        assert_null(add(approvals, 2, 10, NULL)); /* which looks as well */
    }
    assert_in_range(logged(place, "approval_not_expired"), 1, 5);
    assert_int_equal(first->approval.state, APPROVAL_PENDING);
    assert_int_equal(mkdir(place->directory, 0700), 0);
    approvals_free(approvals);
}

/* A job that has run does not stay `running` because the disk was full for a moment. */
static void test_an_end_that_cannot_be_written_is_written_later(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    struct approvals *approvals = open_approvals(place, true, &err);
    struct approval_entry *entry = add(approvals, 1, 10, &err);
    assert_int_equal(approvals_move(entry, APPROVAL_APPROVED, "boss", NULL, &err), 0);
    assert_int_equal(approvals_move(entry, APPROVAL_RUNNING, NULL, NULL, &err), 0);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", place->directory, entry->approval.id);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0); /* nothing can be renamed to it */
    assert_true(approvals_end(entry, APPROVAL_DONE, "exit code 7", NULL) < 0);
    assert_int_equal(entry->approval.state, APPROVAL_RUNNING);
    assert_int_equal(rmdir(path), 0);
    for (int i = 0; i < 3000 && entry->approval.state == APPROVAL_RUNNING; i++) {
        assert_int_equal(loop_once(place->loop, 10, NULL), 0);
    }
    assert_int_equal(entry->approval.state, APPROVAL_DONE);
    assert_string_equal(entry->approval.outcome, "exit code 7");
    assert_int_equal(access(path, F_OK), 0);
    approvals_free(approvals);
}

/* The directory is gone: what cannot be made durable has not happened. */
static void test_a_step_that_cannot_be_written_is_not_taken(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    struct approvals *approvals = open_approvals(place, true, &err);
    struct approval_entry *waits = add(approvals, 1, 10, &err), *runs = add(approvals, 2, 10, &err);
    assert_int_equal(approvals_move(runs, APPROVAL_APPROVED, "boss", NULL, &err), 0);
    empty_directory(place->directory);
    assert_int_equal(rmdir(place->directory), 0);
    assert_true(approvals_move(waits, APPROVAL_APPROVED, "boss", NULL, &err) < 0);
    assert_int_equal(err.kind, ERR_INTERNAL);
    assert_int_equal(waits->approval.state, APPROVAL_PENDING);
    assert_true(approvals_move(runs, APPROVAL_RUNNING, NULL, NULL, NULL) < 0);
    assert_int_equal(runs->approval.state, APPROVAL_APPROVED);
    assert_null(add(approvals, 3, 10, NULL));
    const struct approval key = make_approval(1, "");
    assert_true(approvals_grant(approvals, &key, NULL) < 0);
    assert_false(approvals_is_granted(approvals, &key));
    assert_int_equal(approvals_count(approvals).pending, 1);
    assert_int_equal(approvals_count(approvals).approved, 1);
    assert_int_equal(mkdir(place->directory, 0700), 0);
    approvals_free(approvals);
}

static void test_first_uses(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    struct approvals *approvals = open_approvals(place, true, &err);
    const struct approval team = make_approval(1, "t"), mate = make_approval(2, "t"),
                          key = make_approval(1, ""), named = make_approval(1, "u");
    struct approval changed = make_approval(1, "t");
    changed.policy_sha256[0] = 'c';
    assert_int_equal(approvals_grant(approvals, &team, &err), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(approvals_is_granted(approvals, &team));
        assert_true(approvals_is_granted(approvals, &mate));
        assert_false(approvals_is_granted(approvals, &key));
        assert_false(approvals_is_granted(approvals, &named));
        assert_false(approvals_is_granted(approvals, &changed));
        approvals_free(approvals);
        approvals = open_approvals(place, true, &err);
    }
    assert_int_equal(approvals_grant(approvals, &key, &err), 0);
    const struct approval other = make_approval(3, "");
    assert_true(approvals_is_granted(approvals, &key));
    assert_false(approvals_is_granted(approvals, &other));
    approvals_free(approvals);
}

static void test_directories_that_will_not_do(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    assert_int_equal(chmod(place->directory, 0750), 0);
    assert_null(open_approvals(place, true, &err));
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_non_null(strstr(err.text, "chmod 700"));
    assert_int_equal(chmod(place->directory, 0700), 0);
    strcat(place->directory, "/file");
    CLEANUP(fd_closep) int fd = open(place->directory, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    err_clear(&err);
    assert_null(open_approvals(place, true, &err));
    assert_int_equal(err.kind, ERR_CONFIG);
    *strrchr(place->directory, '/') = '\0';
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_step_outlives_the_server),
        TEST(test_no_step_back),
        TEST(test_limits),
        TEST(test_time_goes_by),
        TEST(test_a_job_that_is_another),
        TEST(test_broken_files_run_nothing),
        TEST(test_no_job_is_left),
        TEST(test_too_late_is_too_late),
        TEST(test_a_step_that_is_not_durable_is_taken_back),
        TEST(test_what_cannot_expire_is_tried_again_later),
        TEST(test_an_end_that_cannot_be_written_is_written_later),
        TEST(test_a_step_that_cannot_be_written_is_not_taken),
        TEST(test_first_uses),
        TEST(test_directories_that_will_not_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
