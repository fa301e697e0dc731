/* server/audit/trail.c, server/audit/chain.c, server/warden/audit.c: what is written, what is not, and what a
 * front may send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "server/audit/chain.h"
#include "server/audit/trail.h"
#include "server/audit/verify.h"
#include "server/kit/log.h"
#include "server/run/settings.h"
#include "server/warden/warden_internal.h"

static const char job[] = "{\"time\":\"t\",\"event\":\"audit\"}";

struct place {
    char directory[64], path[96];
    struct log *log;
    struct audit_trail *trail;
};

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    snprintf(place->directory, sizeof place->directory, "/tmp/immure-audit-XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    snprintf(place->path, sizeof place->path, "%s/audit.log", place->directory);
    place->log = log_new(open("/dev/null", O_WRONLY | O_CLOEXEC), LOG_FORMAT_JSON, LOG_DEBUG, "test");
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct place *place = *state;
    unlink(place->path);
    assert_int_equal(rmdir(place->directory), 0);
    log_free(place->log);
    free(place);
    return 0;
}

static void begin(struct place *place, const char *path, uint64_t max_bytes)
{
    const struct audit_trail_options options = {
        .path = path, .limits = {.max_bytes = max_bytes}, .log = &place->log};
    struct err err = {0};
    assert_int_equal(audit_trail_open(&options, &place->trail, &err), 0);
    assert_int_equal(audit_trail_begin(place->trail, "started", &err), 0);
}

static void append(struct place *place)
{
    audit_trail_append(place->trail, job, sizeof job - 1);
}

static void hear(void *arg, bool fault, const char *file, uint64_t line, const char *text)
{
    (void)file;
    struct buf *heard = arg;
    buf_printf(heard, "%d %s %s\n", (int)line, fault ? "fault" : "note", text);
}

static struct audit_verdict verify(const struct place *place, struct buf *heard)
{
    const char *paths[] = {place->path};
    const struct audit_report report = {hear, heard};
    struct audit_verdict verdict;
    struct err err = {0};
    assert_int_equal(audit_verify(paths, 1, NULL, &report, &verdict, &err), 0);
    return verdict;
}

/* The file may not grow: the line that does not fit is taken back, those behind it are counted. */
static void a_full_disk_is_told_afterwards(void **state)
{
    struct place *place = *state;
    begin(place, place->path, 0);
    append(place);
    struct stat stat_before, stat_full;
    assert_int_equal(stat(place->path, &stat_before), 0);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit tight = {(rlim_t)stat_before.st_size + 10, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    append(place);
    append(place);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(stat(place->path, &stat_full), 0);
    assert_int_equal(stat_full.st_size, stat_before.st_size);
    append(place);
    audit_trail_close(place->trail);
    CLEANUP(buf_free) struct buf heard = BUF_INIT;
    struct audit_verdict verdict = verify(place, &heard);
    assert_int_equal(verdict.lines, 5); /* opened, one, lost, one, closed */
    assert_int_equal(verdict.faults, 0);
    assert_true(verdict.closed);
    assert_string_equal(heard.data, "3 note lines before it could not be written, as it says\n");
}

/* A line without which nothing is to happen is written or refused, never lost. */
static void a_line_that_is_demanded_is_there_or_refused(void **state)
{
    struct place *place = *state;
    begin(place, place->path, 0);
    assert_int_equal(audit_trail_demand(place->trail, job, sizeof job - 1), 0);
    struct stat full;
    assert_int_equal(stat(place->path, &full), 0);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit tight = {(rlim_t)full.st_size, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    assert_int_equal(audit_trail_demand(place->trail, job, sizeof job - 1), -EFBIG);
    assert_int_equal(audit_trail_failure(place->trail), EFBIG);
    assert_int_equal(audit_trail_mend(place->trail), -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(audit_trail_demand(place->trail, job, sizeof job - 1), -EFBIG); /* until it is mended */
    assert_int_equal(audit_trail_mend(place->trail), 0);
    assert_int_equal(audit_trail_failure(place->trail), 0);
    assert_int_equal(audit_trail_demand(place->trail, job, sizeof job - 1), 0);
    assert_int_equal(audit_trail_lost(place->trail), 0);
    audit_trail_close(place->trail);
    CLEANUP(buf_free) struct buf heard = BUF_INIT;
    struct audit_verdict verdict = verify(place, &heard);
    assert_int_equal(verdict.lines, 5); /* opened, one, resumed, one, closed */
    assert_int_equal(verdict.faults, 0);
    struct stat closed;
    assert_int_equal(stat(place->path, &closed), 0);
    assert_true((uint64_t)closed.st_blocks * 512 < 65536); /* what was reserved is given back */
}

/* A line without which nothing is to happen does not go to a file that somebody has moved away; nothing says
 * that all is well before. */
static void what_has_been_moved_away_is_not_taken_for_mended(void **state)
{
    struct place *place = *state;
    char moved[128];
    struct stat before, after;
    snprintf(moved, sizeof moved, "%s/moved", place->directory);
    begin(place, place->path, 0);
    assert_int_equal(rename(place->path, moved), 0);
    int fd = open(place->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "foreign", 7), 7);
    close(fd);
    audit_trail_hangup(place->trail);
    assert_int_equal(audit_trail_failure(place->trail), EEXIST);
    assert_int_equal(stat(moved, &before), 0);
    assert_int_equal(audit_trail_mend(place->trail), -EEXIST);
    assert_int_equal(audit_trail_mend(place->trail), -EEXIST);
    assert_int_equal(audit_trail_demand(place->trail, job, sizeof job - 1), -EEXIST);
    assert_int_equal(stat(moved, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    append(place); /* audit_log_bytes is 0: this must not rotate either */
    assert_int_equal(stat(place->path, &after), 0);
    assert_int_equal(after.st_size, 7);
    assert_int_equal(unlink(place->path), 0);
    assert_int_equal(audit_trail_mend(place->trail), 0);
    assert_int_equal(audit_trail_demand(place->trail, job, sizeof job - 1), 0);
    audit_trail_close(place->trail);
    CLEANUP(buf_free) struct buf heard = BUF_INIT;
    assert_int_equal(verify(place, &heard).lines, 4); /* opened, resumed, one, closed */
    assert_int_equal(unlink(moved), 0);
}

/* Only files that the trail itself has left are counted and removed, also while it cannot go on. */
static void only_files_of_its_own_are_removed(void **state)
{
    struct place *place = *state;
    static const char *const names[] = {".1", ".20260101", ".000000000001", ".000000000002"};
    char name[128];
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        snprintf(name, sizeof name, "%s%s", place->path, names[i]);
        close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    }
    begin(place, place->path, 0);
    const struct audit_trail_limits limits = {.keep_files = 1};
    audit_trail_set_limits(place->trail, &limits);
    assert_int_equal(audit_trail_mend(place->trail), 0);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        snprintf(name, sizeof name, "%s%s", place->path, names[i]);
        assert_int_equal(unlink(name), i == 2 ? -1 : 0);
    }
    audit_trail_close(place->trail);
}

static void what_cannot_be_written_at_the_start_stops_it(void **state)
{
    struct place *place = *state;
    const struct audit_trail_options options = {.path = "/dev/full", .log = &place->log};
    struct audit_trail *trail;
    struct err err = {0};
    assert_int_equal(audit_trail_open(&options, &trail, &err), 0);
    assert_true(audit_trail_begin(trail, "started", &err) < 0);
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_non_null(strstr(err.text, "/dev/full"));
    audit_trail_close(trail);
    begin(place, "/dev/null", 10); /* which is no file to rotate */
    append(place);
    append(place);
    audit_trail_close(place->trail);
}

static void a_line_of_a_front_is_one_line(void **state)
{
    (void)state;
    assert_true(audit_chain_takes(job, sizeof job - 1));
    static const char *const others[] = {"",
                                         "{",
                                         "}",
                                         "{}",
                                         "{\"time\":\"",
                                         "{\"time\":\"\"}\n",
                                         "{\"time\":\"\",\n\"seq\":1}",
                                         "{\"time\":\"\t\"}",
                                         "{\"chain\":\"closed\",\"time\":\"\"}",
                                         " {\"time\":\"\"}"};
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        assert_false(audit_chain_takes(others[i], strlen(others[i])));
    }
    assert_false(audit_chain_takes("{\"time\":\"\0\"}", 12));
    char *large = malloc(AUDIT_SENT_MAX + 1);
    snprintf(large, AUDIT_SENT_MAX + 1, "{\"time\":\"%*s", (int)AUDIT_SENT_MAX - 9, "}");
    assert_true(audit_chain_takes(large, AUDIT_SENT_MAX));
    large[AUDIT_SENT_MAX] = '}';
    assert_false(audit_chain_takes(large, AUDIT_SENT_MAX + 1));
    free(large);
}

/* A front's line cannot speak for the trail, whatever it holds. */
static void a_line_reads_in_one_way_only(void **state)
{
    (void)state;
    struct audit_link prev;
    const char *kind;
    size_t size;
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    static const struct {
        const char *line;
        bool valid;
        const char *kind;
    } rows[] = {
        {"{\"seq\":1,\"prev\":\"" HASH "\",\"time\":\"t\"}", true, NULL},
        {"{\"seq\":1,\"prev\":\"" HASH "\",\"time\":\"t\",\"chain\":\"closed\"}", true, NULL},
        {"{\"seq\":18446744073709551615,\"prev\":\"" HASH "\",\"chain\":\"closed\"}", true, "closed"},
        {"{\"seq\":18446744073709551616,\"prev\":\"" HASH "\",\"chain\":\"closed\"}", false, NULL},
        {"{\"seq\":0,\"prev\":\"" HASH "\",\"time\":\"t\"}", false, NULL},
        {"{\"seq\":-1,\"prev\":\"" HASH "\",\"time\":\"t\"}", false, NULL},
        {"{\"seq\":01,\"prev\":\"" HASH "\",\"time\":\"t\"}", false, NULL},
        {"{\"seq\": 1,\"prev\":\"" HASH "\",\"time\":\"t\"}", false, NULL},
        {"{\"seq\":1,\"prev\":\"" HASH "0\",\"time\":\"t\"}", false, NULL},
        {"{\"seq\":1,\"prev\":\"A" HASH, false, NULL},
        {"{\"seq\":1,\"prev\":\"" HASH "\"}", false, NULL},
        {"{\"seq\":1,\"prev\":\"" HASH "\",\"event\":\"t\"}", false, NULL},
        {"{\"seq\":1,\"prev\":\"" HASH "\",\"time\":\"t\"", false, NULL},
        {"{\"seq\":1,\"prev\":\"abc\",\"time\":\"t\"}", false, NULL},
        {"", false, NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        print_message("%s\n", rows[i].line);
        bool valid = audit_chain_parse(rows[i].line, strlen(rows[i].line), &prev, &kind, &size);
        assert_int_equal(valid, rows[i].valid);
        if (valid && rows[i].kind) {
            assert_int_equal(size, strlen(rows[i].kind));
            assert_memory_equal(kind, rows[i].kind, size);
        } else if (valid) {
            assert_null(kind);
        }
    }
}

/* What a front holds is a socket: nothing that can be rewound, cut or mapped. */
static void a_front_has_no_way_to_the_file(void **state)
{
    struct place *place = *state;
    static const struct {
        const char *sent;
        bool lives;
    } rows[] = {
        {"{\"time\":\"t\"}\n", true},
        {"{\"time\":\"t\"}", false},
        {"{\"time\":\"t\"}\n{\"time\":\"t\"}\n", false},
        {"{\"chain\":\"closed\"}\n", false},
        {"\n", false},
    };
    begin(place, place->path, 0);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct server_config config = {.audit_log = place->path};
        struct settings settings = {.references = 1, .config = &config};
        struct warden warden = {.log = place->log, .audit = place->trail};
        struct front front = {
            .warden = &warden, .settings = &settings, .audit_fd = -1, .process = {.pidfd = -1}};
        struct err err = {0};
        struct stat stat;
        int fd;
        assert_int_equal(loop_new(&warden.loop, &err), 0);
        assert_int_equal(front_audit_begin(&front, &fd, &err), 0);
        assert_int_equal(fstat(fd, &stat), 0);
        assert_true(S_ISSOCK(stat.st_mode));
        assert_true(lseek(fd, 0, SEEK_SET) < 0 && ftruncate(fd, 0) < 0 && pwrite(fd, "x", 1, 0) < 0);
        assert_int_equal(write(fd, rows[i].sent, strlen(rows[i].sent)), strlen(rows[i].sent));
        assert_int_equal(loop_once(warden.loop, 10000, &err), 0);
        assert_int_equal(front.state, rows[i].lives ? FRONT_STARTING : FRONT_DYING);
        assert_int_equal(front.audit_fd >= 0, rows[i].lives);
        close(fd);
        front_audit_end(&front);
        free(warden.audit_line);
        loop_free(warden.loop);
    }
    audit_trail_close(place->trail);
    CLEANUP(buf_free) struct buf heard = BUF_INIT;
    assert_int_equal(verify(place, &heard).lines, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_full_disk_is_told_afterwards, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_line_that_is_demanded_is_there_or_refused, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(what_has_been_moved_away_is_not_taken_for_mended, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(only_files_of_its_own_are_removed, make_place, remove_place),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_at_the_start_stops_it, make_place,
                                        remove_place),
        cmocka_unit_test(a_line_of_a_front_is_one_line),
        cmocka_unit_test(a_line_reads_in_one_way_only),
        cmocka_unit_test_setup_teardown(a_front_has_no_way_to_the_file, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
