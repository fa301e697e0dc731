/* server/warden/front_process.c: what the front's process has and has not when its first instruction runs.
 * This binary plays the front: started as `immure-front` it describes itself on the channel. */
#include "server/warden/front_process.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/link/channel.h"

#define FRONT_UID 1879048191u

static const struct {
    int resource;
    unsigned long expected;
} limits[] = {
    {RLIMIT_CORE, 1}, {RLIMIT_MEMLOCK, 0}, {RLIMIT_MSGQUEUE, 0}, {RLIMIT_NICE, 0}, {RLIMIT_RTPRIO, 0},
};

/* The lines of /proc/self/status that start with one of `words`. */
static void describe_status(struct buf *ret)
{
    static const char *const words[] = {"Uid:",    "Groups:", "CapInh:",     "CapPrm:", "CapEff:",
                                        "CapBnd:", "CapAmb:", "NoNewPrivs:", "SigBlk:", "SigIgn:"};
    CLEANUP(buf_free) struct buf status = BUF_INIT;
    io_read_file_at(AT_FDCWD, "/proc/self/status", 1 << 16, &status);
    char *save = NULL;
    for (char *line = strtok_r(status.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
            if (strncmp(line, words[i], strlen(words[i])) == 0) {
                buf_printf(ret, "%s\n", line);
            }
        }
    }
}

static const char *const namespaces[] = {"pid", "ipc", "uts", "cgroup", "net", "user"};

/* Which namespaces it is in, and the interfaces of its network. */
static void describe_namespaces(struct buf *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
        char path[64], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/ns/%s", namespaces[i]);
        ssize_t n = readlink(path, target, sizeof target - 1);
        buf_printf(ret, "namespace %s\n", n > 0 ? target : "unknown");
    }
    struct if_nameindex *interfaces = if_nameindex();
    for (size_t i = 0; interfaces && interfaces[i].if_index > 0; i++) {
        buf_printf(ret, "interface %s\n", interfaces[i].if_name);
    }
    buf_puts(ret, interfaces ? "no more interfaces\n" : "no list of interfaces\n");
    if_freenameindex(interfaces);
}

/* None of them is ours; the user namespace only where the ids are. */
static void check_namespaces(const char *text, bool change_ids)
{
    for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
        char path[64], target[64] = "", line[96];
        snprintf(path, sizeof path, "/proc/self/ns/%s", namespaces[i]);
        assert_true(readlink(path, target, sizeof target - 1) > 0);
        snprintf(line, sizeof line, "namespace %s\n", target);
        bool shared = change_ids && strcmp(namespaces[i], "user") == 0;
        assert_int_equal(strstr(text, line) != NULL, shared);
    }
}

static int play_the_front(void)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int death = 0;
    for (int fd = 0; fd < 1024; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            buf_printf(&text, "fd %d\n", fd);
        }
    }
    describe_status(&text);
    prctl(PR_GET_PDEATHSIG, &death, 0, 0, 0);
    buf_printf(&text, "pdeathsig %d\npid %d\n", death, (int)getpid());
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        struct rlimit limit;
        getrlimit((__rlimit_resource_t)limits[i].resource, &limit);
        buf_printf(&text, "limit %d: %lu\n", limits[i].resource, (unsigned long)limit.rlim_max);
    }
    describe_namespaces(&text);
    for (char **var = environ; *var; var++) {
        buf_printf(&text, "env %s\n", *var);
    }
    return io_send_fds(FRONT_CHANNEL_FD, text.data, text.len, NULL, 0) < 0;
}

static int make_listener(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

static void test_what_the_front_has(void **state)
{
    (void)state;
    CLEANUP(fd_closep) int self = open("/proc/self/exe", O_PATH | O_CLOEXEC);
    CLEANUP(fd_closep) int listener = make_listener();
    /* Without close-on-exec, as a careless library would. */
    CLEANUP(fd_closep) int leak = open("/dev/null", O_RDONLY);
    assert_true(leak >= 0);
    setenv("SECRET_KEY", "s3cret", 1);
    setenv("TZ", "UTC", 1);
    const struct front_process_options options = {
        .executable_fd = self, .listen_fd = listener, .change_ids = geteuid() == 0, .uid = FRONT_UID};
    struct front_process process;
    struct err err = {0};
    if (front_process_start(&options, &process, &err) < 0) {
        fail_msg("%s", err.text);
    }
    char text[8192];
    ssize_t n = recv(process.channel_fd, text, sizeof text - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    print_message("%s", text);
    int status;
    assert_int_equal(waitpid(process.pid, &status, 0), process.pid);
    assert_int_equal(status, 0);

    assert_non_null(strstr(text, "fd 0\nfd 1\nfd 2\nfd 3\nfd 4\nUid:"));
    assert_non_null(strstr(text, "NoNewPrivs:\t1\n"));
    static const char *const empty[] = {"CapInh", "CapPrm", "CapEff", "CapAmb", "SigBlk"};
    for (size_t i = 0; i < ARRAY_SIZE(empty); i++) {
        char line[64];
        snprintf(line, sizeof line, "%s:\t0000000000000000\n", empty[i]);
        assert_non_null(strstr(text, line));
    }
    assert_non_null(strstr(text, "pdeathsig 9\n"));
    assert_non_null(strstr(text, "pid 1\n")); /* nobody else to be seen */
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        char line[64];
        snprintf(line, sizeof line, "limit %d: %lu\n", limits[i].resource, limits[i].expected);
        assert_non_null(strstr(text, line));
    }
    assert_non_null(strstr(text, "interface lo\nno more interfaces\n"));
    check_namespaces(text, options.change_ids);
    assert_non_null(strstr(text, "env TZ=UTC\n"));
    assert_null(strstr(text, "SECRET"));
    if (options.change_ids) {
        assert_non_null(strstr(text, "Uid:\t1879048191\t1879048191\t1879048191\t1879048191\n"));
        assert_non_null(strstr(text, "Groups:\t \n"));
        assert_non_null(strstr(text, "CapBnd:\t0000000000000000\n"));
    }
    close(process.channel_fd);
    close(process.pidfd);
}

static void test_a_failing_step_is_named(void **state)
{
    (void)state;
    CLEANUP(fd_closep) int not_a_program = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CLEANUP(fd_closep) int listener = make_listener();
    const struct front_process_options options = {.executable_fd = not_a_program, .listen_fd = listener};
    struct front_process process;
    struct err err = {0};
    assert_int_equal(front_process_start(&options, &process, &err), -EACCES);
    assert_non_null(strstr(err.text, "executing immure-front"));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left */
    assert_int_equal(errno, ECHILD);
}

int main(int argc, char **argv)
{
    if (argc == 1 && strcmp(argv[0], FRONT_PROGRAM) == 0) {
        return play_the_front();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_front_has),
        cmocka_unit_test(test_a_failing_step_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
