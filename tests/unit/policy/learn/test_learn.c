/* policy/learn: from what was observed to the text of a policy. */
#include "policy/learn/learn.h"

#include <linux/sched.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "policy/filter/names.h"
#include "policy/learn/observed.h"
#include "tests/unit/policy/helper.h"
#include "tests/unit/policy/lint_text.h"

#define USE "\"debian\", \"processes\", \"scratch\", \"limits\""

static void add(struct observed *observed, const char *call, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t arguments[6] = {a, b, c};
    observed_add_call(observed, policy_syscall_number(call, NULL), arguments);
}

static struct policy *parent(const char *use)
{
    struct policy *policy = NULL;
    struct err err = {0};
    if (learn_parent_make(use, &policy, &err) < 0) {
        fail_msg("%s: %s: %s", use, err.item, err.text);
    }
    return policy;
}

/* The policy as text; it compiles, and lint has nothing to say. */
static char *learned(struct observed *observed, const char *use)
{
    static char *const none[] = {NULL};
    static char env_text[] = "A=x \"\\";
    static char *const env[] = {env_text, NULL};
    const struct learn_about about = {
        .name = "it", .program = "it\n-x", .runs = 2, .names_cwd = true, .env = env, .left_out = none};
    CLEANUP(policy_freep) struct policy *policy = parent(use);
    const struct learn_parent with = {use, policy};
    struct buf text = BUF_INIT;
    CLEANUP(buf_free) struct buf findings = BUF_INIT;
    struct err err = {0};
    snprintf(observed->cwd, sizeof observed->cwd, "/work/here");
    observed_sort(observed);
    assert_int_equal(learn_write(observed, &with, &about, &text, &err), 0);
    policy_free(compile(text.data));
    if (lint_text(text.data, &findings) != 0) {
        fail_msg("%s\n%s", findings.data, text.data);
    }
    observed_clear(observed);
    return buf_steal(&text);
}

static void assert_says(const char *text, const char *words)
{
    if (!strstr(text, words)) {
        fail_msg("\"%s\" is not in:\n%s", words, text);
    }
}

static void assert_silent(const char *text, const char *words)
{
    if (strstr(text, words)) {
        fail_msg("\"%s\" is in:\n%s", words, text);
    }
}

static void test_what_the_parent_has_is_not_said(void **state)
{
    (void)state;
    struct observed observed = {0};
    add(&observed, "read", 0, 0, 0);
    add(&observed, "ioctl", 0, TIOCGWINSZ, 0);
    add(&observed, "clone3", 0, 0, 0);
    observed_add_path(&observed, "/usr/bin/ls", PATH_EXECUTED | PATH_PROGRAM, NULL);
    observed_add_path(&observed, "/tmp/x", PATH_CREATED, NULL);
    observed_add_path(&observed, "/usr/share/looked/at", PATH_LOOKED, NULL);
    CLEANUP(freep) char *text = learned(&observed, USE);
    assert_says(text,
                "from 2 runs, 0 system calls of 1 program:\n#   it\\012-x\nname: \"it\"\nuse: [" USE "]\n");
    assert_says(text, "env { name: \"A\" value: \"x \\042\\134\" }\n");
    assert_says(text, "mount { destination: \"/work/here\" symlink { target: \"/workspace\" } }\n");
    assert_silent(text, "bind");
    assert_silent(text, "seccomp");
    assert_silent(text, "limits {");
}

static void test_rules_have_the_arguments_that_were_seen(void **state)
{
    (void)state;
    struct observed observed = {.sockets = true};
    add(&observed, "ioctl", 0, TCSETS, 0);
    add(&observed, "ioctl", 0, TCSETS, 0);
    add(&observed, "ioctl", 0, TCFLSH, 0);
    add(&observed, "socket", AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    add(&observed, "socket", AF_INET, SOCK_STREAM, 0);
    add(&observed, "setsockopt", 3, SOL_SOCKET, SO_REUSEADDR);
    add(&observed, "listen", 3, 0, 0);
    add(&observed, "io_uring_setup", 0, 0, 0);
    CLEANUP(freep) char *text = learned(&observed, USE);
    assert_says(text, "  # ioctl: TCSETS 2, TCFLSH 1\n  rule { action: ALLOW syscall: \"ioctl\" where { arg: "
                      "\"request\" in: [\"TCSETS\", \"TCFLSH\"] } reason: \"learned\" }\n");
    assert_says(
        text, "syscall: \"socket\" where { arg: \"family\" in: [\"AF_INET\"] } where { arg: \"type\" mask: "
              "\"SOCK_TYPE_MASK\" in: [\"SOCK_STREAM\"] } where { arg: \"protocol\" in: [\"IPPROTO_IP\"] }");
    assert_says(text, "syscall: \"setsockopt\" where { arg: \"level\" in: [\"SOL_SOCKET\"] } where { arg: "
                      "\"optname\" in: [\"SO_REUSEADDR\"] } reason");
    assert_silent(text, "@network-local");
    assert_says(text, "  # listen 1\n  rule { action: ALLOW syscall: [\"listen\"] reason: \"learned\" }\n");
    assert_says(
        text,
        "  rule { action: ERRNO errno: \"ENOSYS\" syscall: \"io_uring_setup\" reason: \"done without\" }\n");
}

static void test_what_no_policy_should_allow_is_quoted(void **state)
{
    (void)state;
    static const char *const quoted[] = {
        "clone(CLONE_NEWUSER|SIGCHLD), 1 time: brings every capability back",
        "#   unshare(CLONE_NEWNS), 1 time: ",
        "#   mount, 1 time: ",
        "#   bpf(BPF_MAP_CREATE), 1 time: ",
        "#   ptrace(PTRACE_ATTACH), 2 times: ",
        "#   ioctl(TIOCSTI), 1 time: types into the terminal",
        "#   socket(AF_PACKET, SOCK_DGRAM), 1 time: reaches past the network",
        "#   clone(CLONE_NEWNS|SIGCHLD), 1 time: makes namespaces",
        "#   clone(CLONE_NEWPID|SIGCHLD), 1 time: makes namespaces",
        "#   clone(CLONE_PARENT|SIGCHLD), 1 time: makes children of PID 1",
        "#   socket(AF_INET, SOCK_RAW, IPPROTO_ICMP), 1 time: ",
        "#   socket(AF_INET6, SOCK_RAW, IPPROTO_RAW), 1 time: ",
        "#   socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), 1 time: ",
        "#   socket(AF_INET, SOCK_DGRAM, 136), 1 time: ",
        "#   setsockopt(SOL_SOCKET, SO_ATTACH_FILTER), 1 time: ",
        "#   mknodat(S_IFCHR), 1 time: makes devices",
        "#   prctl(PR_SET_MM), 1 time: ",
        "#   ioctl(TIOCSCTTY), 1 time: ",
        "#   ioctl(0x4c00), 1 time: ",
        "#   madvise(MADV_PAGEOUT), 1 time: what it uses gives this call with other arguments only",
    };
    struct observed observed = {.sockets = true};
    add(&observed, "clone", CLONE_NEWUSER | SIGCHLD, 0, 0);
    add(&observed, "unshare", CLONE_NEWNS, 0, 0);
    add(&observed, "mount", 0, 0, 0);
    add(&observed, "bpf", 0, 0, 0);
    add(&observed, "ptrace", 16, 1, 0);
    add(&observed, "ptrace", 16, 1, 0);
    add(&observed, "ioctl", 0, TIOCSTI, 0);
    add(&observed, "socket", AF_PACKET, SOCK_DGRAM, 0);
    add(&observed, "madvise", 0, 0, 21);
    add(&observed, "clone", CLONE_NEWNS | SIGCHLD, 0, 0);
    add(&observed, "clone", CLONE_NEWPID | SIGCHLD, 0, 0);
    add(&observed, "clone", CLONE_PARENT | SIGCHLD, 0, 0);
    add(&observed, "socket", AF_INET, SOCK_RAW, IPPROTO_ICMP);
    add(&observed, "socket", AF_INET6, SOCK_RAW, IPPROTO_RAW);
    add(&observed, "socket", AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    add(&observed, "socket", AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE);
    add(&observed, "setsockopt", 3, SOL_SOCKET, SO_ATTACH_FILTER);
    add(&observed, "mknodat", 0, 0, S_IFCHR | 0600);
    add(&observed, "prctl", PR_SET_MM, 0, 0);
    add(&observed, "ioctl", 0, TIOCSCTTY, 0);
    add(&observed, "ioctl", 0, 0x4c00, 0);
    CLEANUP(freep) char *text = learned(&observed, USE);
    assert_silent(text, "rule");
    assert_says(text, "# System calls that were made and are not given:\n");
    for (size_t i = 0; i < ARRAY_SIZE(quoted); i++) {
        assert_says(text, quoted[i]);
    }
}

/* What the text of each argument says is a policy's word. */
static void test_forks_can_be_given(void **state)
{
    (void)state;
    struct observed observed = {0};
    add(&observed, "clone", CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | SIGCHLD, 0, 0);
    add(&observed, "clone", SIGCHLD, 0, 0);
    observed_add_path(&observed, "/dev/null", PATH_READ, NULL);
    observed_add_path(&observed, "/proc/self/maps", PATH_READ, NULL);
    CLEANUP(freep) char *text = learned(&observed, "\"strict\"");
    assert_says(text, "in: [\"SIGCHLD\", \"CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD\"]");
}

static void test_locks_are_counted(void **state)
{
    (void)state;
    struct observed observed = {0};
    add(&observed, "flock", 3, 2, 0);
    CLEANUP(freep) char *text = learned(&observed, "\"strict\"");
    assert_says(text, "  rule { action: COUNT set: \"@file-locks\" reason: \"learned\" }\n");
}

static void test_nscd_is_no_network(void **state)
{
    (void)state;
    struct observed observed = {0};
    add(&observed, "socket", AF_UNIX, SOCK_STREAM, 0);
    add(&observed, "connect", 3, 0, 0);
    CLEANUP(freep) char *text = learned(&observed, USE);
    assert_says(text, "action: ERRNO errno: \"EACCES\" syscall: \"socket\"");
    assert_silent(text, "connect");
}

static void test_mounts(void **state)
{
    (void)state;
    struct observed observed = {0};
    observed_add_path(&observed, "/usr/lib/git-core/a", PATH_READ, NULL);
    observed_add_path(&observed, "/usr/lib/git-core/b", PATH_READ, NULL);
    observed_add_path(&observed, "/usr/lib", PATH_READ | PATH_DIRECTORY, NULL);
    observed_add_path(&observed, "/lib64", PATH_LINK, "usr/lib64");
    observed_add_path(&observed, "/lib", PATH_LINK, "usr/lib");
    observed_add_path(&observed, "/usr/lib/git-core/link", PATH_LINK, "a");
    observed_add_path(&observed, "/usr/share/zoneinfo/UTC", PATH_READ, NULL);
    observed_add_path(&observed, "/data/a", PATH_READ, NULL);
    observed_add_path(&observed, "/data/q\"\\", PATH_READ, NULL);
    observed_add_path(&observed, "/dev/full", PATH_WRITTEN, NULL);
    for (char file[] = "/data/many/0"; file[11] < '5'; file[11]++) {
        observed_add_path(&observed, file, PATH_READ, NULL);
    }
    observed_add_path(&observed, "/root/.netrc", PATH_READ, NULL);
    observed_add_path(&observed, "/proc/meminfo", PATH_READ, NULL);
    observed_add_path(&observed, "/srv/closed", PATH_REFUSED, NULL);
    observed_add_path(&observed, "/srv/made", PATH_CREATED, NULL);
    CLEANUP(freep) char *text = learned(&observed, USE);
    assert_says(
        text,
        "\nmount { destination: \"/data/a\" bind { source: \"/data/a\" } }\n# 5 files:\n"
        "mount { destination: \"/data/many\" bind { source: \"/data/many\" } }\n"
        "mount { destination: \"/data/q\\042\\134\" bind { source: \"/data/q\\042\\134\" } }\n"
        "mount { destination: \"/dev/full\" bind { source: \"/dev/full\" } allow_devices: true }\n"
        "# 2 files:\nmount { destination: \"/usr/lib/git-core\" bind { source: \"/usr/lib/git-core\" } }\n"
        "mount { destination: \"/lib64\" symlink { target: \"usr/lib64\" } }\n\n# The working");
    assert_says(text, "#   lies in a home: /root/.netrc\n");
    assert_says(text, "alone: /proc/meminfo\n");
    assert_says(text, "#   refused to this user: /srv/closed\n");
    assert_says(text, "#   written to, and neither in the working directory nor in /tmp: /srv/made\n");
}

/* Secrets are not mounted by what they lie in. */
static void test_what_holds_a_secret_is_taken_apart(void **state)
{
    (void)state;
    struct observed observed = {0};
    observed_add_path(&observed, "/opt/app/a", PATH_READ, NULL);
    observed_add_path(&observed, "/opt/app/lib/b", PATH_READ, NULL);
    observed_add_path(&observed, "/opt/app/.env", PATH_READ | PATH_SECRET, NULL);
    observed_add_path(&observed, "/data/listed", PATH_READ | PATH_DIRECTORY, NULL);
    observed_add_path(&observed, "/data/listed/conf/id_rsa", PATH_SECRET, NULL);
    observed_add_path(&observed, "/mnt/homes/u", PATH_SECRET, NULL);
    for (char file[] = "/mnt/homes/u/0"; file[13] < '5'; file[13]++) {
        observed_add_path(&observed, file, PATH_READ | PATH_SECRET, NULL);
    }
    for (char file[] = "/work/here/conf/00"; file[17] <= '9'; file[17]++) {
        observed_add_path(&observed, file, PATH_READ, NULL);
    }
    observed_add_path(&observed, "/work/here/conf/id_rsa", PATH_SECRET, NULL);
    CLEANUP(freep) char *text = learned(&observed, USE);
    assert_says(text, "bind { source: \"/opt/app/a\" } }\n");
    assert_says(text, "bind { source: \"/opt/app/lib\" } }\n");
    assert_silent(text, "source: \"/opt/app\"");
    assert_silent(text, "source: \"/data");
    assert_silent(text, "source: \"/mnt");
    assert_silent(text, "source: \"/work");
    assert_says(text, "#   lies in a home: /mnt/homes/u/0 ");
    assert_says(text, ": /opt/app/.env\n");
    assert_says(
        text,
        "#   has something in it that is a secret, or may be; mount what lies beside that: /data/listed\n");
}

static void test_working_directory(void **state)
{
    (void)state;
    struct observed observed = {0};
    char file[] = "/work/here/wide/0";
    observed_add_path(&observed, "/work/here/in", PATH_READ, NULL);
    observed_add_path(&observed, "/work/here/d/in", PATH_READ, NULL);
    observed_add_path(&observed, "/work/here/out", PATH_CREATED, NULL);
    observed_add_path(&observed, "/work/here/tool", PATH_READ | PATH_EXECUTED | PATH_PROGRAM | PATH_SECRET,
                      NULL); /* lies in a home */
    for (; file[16] <= '9'; file[16]++) {
        observed_add_path(&observed, file, PATH_READ, NULL);
    }
    CLEANUP(buf_free) struct buf files = BUF_INIT;
    snprintf(observed.cwd, sizeof observed.cwd, "/work/here");
    observed_sort(&observed);
    learn_files(&observed, &files);
    assert_string_equal(files.data, "d/in=/work/here/d/in\nin=/work/here/in\n");
    CLEANUP(freep) char *text = learned(&observed, USE);
    assert_says(
        text, "mount { destination: \"/workspace/tool\" bind { source: \"/work/here/tool\" } }\n# 10 files:\n"
              "mount { destination: \"/workspace/wide\" bind { source: \"/work/here/wide\" } }\n"
              "# Read of the working directory; `immure run --file NAME=FILE` gives them:\n#     d/in in\n");
}

static void test_limits(void **state)
{
    (void)state;
    struct observed observed = {.loopback = true,
                                .network = true,
                                .memory_peak = 600ull << 20,
                                .address_peak = 2000ull << 20,
                                .tasks_peak = 70};
    CLEANUP(freep) char *text = learned(&observed, USE);
    assert_says(text, "\nloopback: true\n");
    assert_says(text, "# It tried to connect to other hosts. A jail has no network.\n");
    assert_says(text, "limits { memory_bytes: 2147483648 pids: 256 address_space: false }");
}

static void test_choice(void **state)
{
    (void)state;
    struct observed observed = {.sockets = true};
    struct learn_parent parents[8];
    size_t n = 0, chosen = SIZE_MAX;
    struct err err = {0};
    for (const char *use; (use = learn_candidate(n)); n++) {
        parents[n] = (struct learn_parent){use, parent(use)};
    }
    /* Of those that leave nothing to add, the one that gives least; none for an interpreter that did not run.
     */
    assert_int_equal(learn_choose(&observed, parents, n, &chosen, &err), 0);
    assert_string_equal(parents[chosen].use, USE);
    add(&observed, "socket", AF_INET, SOCK_STREAM, 0);
    add(&observed, "bind", 3, 0, 0);
    assert_int_equal(learn_choose(&observed, parents, n, &chosen, &err), 0);
    assert_non_null(strstr(parents[chosen].use, "\"sockets\""));
    for (size_t i = 0; i < n; i++) {
        policy_free(parents[i].policy);
    }
    observed_clear(&observed);
}

static void test_parents_are_shipped(void **state)
{
    (void)state;
    struct policy *policy = NULL;
    struct err err = {0};
    assert_int_not_equal(learn_parent_make("\"pythn\"", &policy, &err), 0);
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_non_null(strstr(err.text, "pythn"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_parent_has_is_not_said),
        cmocka_unit_test(test_rules_have_the_arguments_that_were_seen),
        cmocka_unit_test(test_what_no_policy_should_allow_is_quoted),
        cmocka_unit_test(test_forks_can_be_given),
        cmocka_unit_test(test_locks_are_counted),
        cmocka_unit_test(test_nscd_is_no_network),
        cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_what_holds_a_secret_is_taken_apart),
        cmocka_unit_test(test_working_directory),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_parents_are_shipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
