/* Launches real jails from plans made by hand, as root and as an ordinary user alike: verdicts, failures by
 * step, deadlines, and that nothing is left behind. */
#include "tests/unit/jail/launch.h"
#include "tests/unit/no_watches.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "jail/base/clock.h"
#include "jail/census.h"

static size_t count_entries(const char *path)
{
    DIR *dir = opendir(path);
    assert_non_null(dir);
    size_t count = 0;
    while (readdir(dir)) {
        count++;
    }
    closedir(dir);
    return count;
}

static void test_exit_codes(void **state)
{
    static const int codes[] = {0, 1, 3, 125, 137, 255};
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
        char script[32];
        snprintf(script, sizeof script, "exit %d", codes[i]);
        struct outcome o = run(state, &(struct recipe){.script = script});
        assert_string_equal(o.err.text, "");
        assert_int_equal(o.result.end, JAIL_END_PROGRAM);
        assert_true(WIFEXITED(o.result.wstatus));
        assert_int_equal(WEXITSTATUS(o.result.wstatus), codes[i]);
        assert_true(o.result.setup_ns > 0 && o.result.duration_ns > 0);
    }
}

static void test_signals(void **state)
{
    static const int signals[] = {SIGSEGV, SIGABRT, SIGKILL, SIGTERM, SIGPIPE};
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
        char script[32];
        snprintf(script, sizeof script, "kill -%d $$", signals[i]);
        struct outcome o = run(state, &(struct recipe){.script = script});
        assert_int_equal(o.result.end, JAIL_END_PROGRAM);
        assert_true(WIFSIGNALED(o.result.wstatus));
        assert_int_equal(WTERMSIG(o.result.wstatus), signals[i]);
    }
}

/* By none of the calls that give a file its mode, and all other modes as ever. */
static void test_no_set_id(void **state)
{
    static const char script[] =
        "umask 022; touch a; mkdir d\n"
        "for mode in u+s g+s 4755 2755 6711; do chmod $mode a 2>/dev/null && echo $mode; done\n"
        "cp /bin/true t; chmod 4755 t 2>/dev/null; install -m 4755 t u 2>/dev/null\n"
        "perl -MFcntl -e 'sysopen(F, \"o\", O_CREAT|O_WRONLY, 04755) and print \"made\"'\n"
        "find . -perm /6000; chmod 1777 d; chmod 755 a; stat -c %a a d; cat /proc/self/status | "
        "grep Seccomp_filters";
    struct outcome o = run(state, &(struct recipe){.script = script, .no_set_id = true});
    assert_string_equal(o.err.text, "");
    assert_string_equal(o.output, "755\n1777\nSeccomp_filters:\t1\n");
    /* Without it they can be had: the script is no poor one. */
    o = run(state, &(struct recipe){.script = script});
    assert_non_null(strstr(o.output, "u+s\n"));
    assert_non_null(strstr(o.output, "made"));
}

static void test_identity(void **state)
{
    struct outcome o = run(
        state, &(struct recipe){.script = "id -u; id -g; id -G; echo $$; cat /proc/self/status; hostname; "
                                          "ls /proc | grep -c '^1$'; exec 2>&1; cat /proc/1/environ"});
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
    assert_ptr_equal(strstr(o.output, "1000\n1000\n1000"), o.output);
    assert_non_null(strstr(o.output, "CapEff:\t0000000000000000"));
    assert_non_null(strstr(o.output, "CapBnd:\t0000000000000000"));
    assert_non_null(strstr(o.output, "CapPrm:\t0000000000000000"));
    assert_non_null(strstr(o.output, "NoNewPrivs:\t1"));
    assert_non_null(strstr(o.output, "jailed\n0\n"));
    assert_non_null(strstr(o.output, "/proc/1/environ: No such file"));
}

static void test_environment_and_descriptors(void **state)
{
    struct outcome o =
        run(state, &(struct recipe){.script = "env | grep -v ^PWD= | grep -v ^_= ; ls /proc/self/fd"});
    assert_string_equal(o.output, "PATH=/usr/bin:/bin\n0\n1\n2\n3\n");
}

static void test_files(void **state)
{
    struct outcome o = run(
        state, &(struct recipe){.script = "echo x > /work/a && echo y > /tmp/b && ls /work /tmp; exec 2>&1; "
                                          "echo z > /c; echo z > /usr/c; echo q > /proc/self/comm; "
                                          "echo q > /dev/c; ls /"});
    assert_non_null(strstr(o.output, "/tmp:\nb\n\n/work:\na\n"));
    assert_non_null(strstr(o.output, "/c: Read-only file system"));
    assert_non_null(strstr(o.output, "/usr/c: Read-only file system"));
    assert_non_null(strstr(o.output, "/proc/self/comm: Read-only file system"));
    assert_non_null(strstr(o.output, "/dev/c: Read-only file system"));
    assert_non_null(strstr(o.output, "bin\ndev\nlib\nlib64\nproc\ntmp\nusr\nwork\n"));
}

/* /tmp stands for a mount that somebody has made writable by mistake. */
static void test_landlock_is_a_second_wall(void **state)
{
    if (landlock_abi() == 0) {
        skip();
    }
    static const char script[] =
        "exec 2>&1; echo x > /work/a && mkdir /work/d && mv /work/a /work/d/b && ln /work/d/b /work/c && "
        ": > /work/c && echo x > /dev/null && echo own; kill -0 $$ && echo mine; "
        "echo x > /tmp/a; mkdir /tmp/d; kill -0 1; ls -d /tmp/*";
    struct outcome open = run(state, &(struct recipe){.script = script});
    assert_string_equal(open.output, "own\nmine\n/tmp/a\n/tmp/d\n");
    struct outcome shut = run(state, &(struct recipe){.script = script, .landlocked = true});
    assert_non_null(strstr(shut.output, "own\nmine\n"));
    assert_non_null(strstr(shut.output, "/tmp/a: Permission denied"));
    assert_non_null(strstr(shut.output, "'/tmp/d': Permission denied"));
    if (landlock_abi() >= 6) { /* it knows of signals */
        assert_non_null(strstr(shut.output, "Operation not permitted"));
    }
    assert_non_null(strstr(shut.output, "'/tmp/*': No such file"));
}

/* What the kernel offers to this process, and so to a jail: asked in a child, since there is no way back. */
static bool speculation_is_offered(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        bool offered = true;
        for (unsigned long control = PR_SPEC_STORE_BYPASS; control <= PR_SPEC_INDIRECT_BRANCH; control++) {
            int state = prctl(PR_GET_SPECULATION_CTRL, control, 0, 0, 0);
            bool harmless = state == 0 || (state > 0 && (state & (int)(PR_SPEC_PRCTL | PR_SPEC_DISABLE)) ==
                                                            (int)PR_SPEC_DISABLE);
            offered &= harmless || prctl(PR_SET_SPECULATION_CTRL, control, PR_SPEC_FORCE_DISABLE, 0, 0) == 0;
        }
        offered &= prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 0, 1, 0) == 0 || errno == ENODEV;
        _exit(offered ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status == 0;
}

static void test_speculation(void **state)
{
    static const char script[] = "grep -E '^Speculation' /proc/self/status";
    struct outcome o =
        run(state, &(struct recipe){.script = script, .speculation = JAIL_SPECULATION_IF_OFFERED});
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
    o = run(state, &(struct recipe){.script = script, .speculation = JAIL_SPECULATION_INSIST});
    if (speculation_is_offered()) {
        assert_int_equal(o.result.end, JAIL_END_PROGRAM);
        assert_null(strstr(o.output, "thread vulnerable"));
        return;
    }
    assert_int_equal(o.result.end, JAIL_END_SETUP);
    assert_non_null(strstr(o.err.step, "(speculation)"));
    assert_true(strstr(o.err.text, "PR_SET_SPECULATION_CTRL") || strstr(o.err.text, "PR_SCHED_CORE") ||
                strstr(o.err.text, "PR_GET_SPECULATION_CTRL"));
}

static void test_scratch_limit(void **state)
{
    struct outcome o =
        run(state, &(struct recipe){.script = "exec 2>&1; dd if=/dev/zero of=/work/big bs=1k count=2000; "
                                              "rm /work/big; i=0; while [ $i -lt 100 ] && : > /tmp/$i; "
                                              "do i=$((i+1)); done; echo made $i"});
    assert_non_null(strstr(o.output, "No space left on device"));
    assert_null(strstr(o.output, "made 100"));
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
}

static void test_loopback(void **state)
{
    static const char script[] =
        "cat /proc/self/net/dev | grep -c :; ip link show lo 2>/dev/null || cat "
        "/sys/class/net/lo/flags 2>/dev/null; perl -MSocket -e 'socket(S,PF_INET,SOCK_DGRAM,0); "
        "print send(S,\"x\",0,sockaddr_in(9,inet_aton(\"127.0.0.1\"))) ? \"up\\n\" : \"down\\n\"'";
    struct outcome down = run(state, &(struct recipe){.script = script});
    assert_non_null(strstr(down.output, "1\n"));
    assert_non_null(strstr(down.output, "down\n"));
    struct outcome up = run(state, &(struct recipe){.script = script, .loopback = true});
    assert_string_equal(up.err.text, "");
    assert_non_null(strstr(up.output, "up\n"));
}

static void test_deadline(void **state)
{
    struct outcome o =
        run(state, &(struct recipe){.script = "trap '' TERM INT; (sleep 100 &) ; while :; do :; done",
                                    .timeout_ms = 150});
    assert_int_equal(o.result.end, JAIL_END_DEADLINE);
    assert_in_range(o.result.duration_ns / 1000000, 150, 20000);
}

static void test_setup_failures_are_named(void **state)
{
    struct outcome o = run(state, &(struct recipe){.script = "true", .bind_source = "/nowhere"});
    assert_int_equal(o.result.end, JAIL_END_SETUP);
    assert_int_equal(o.err.kind, ERR_SETUP);
    assert_int_equal(o.err.code, ENOENT);
    assert_non_null(strstr(o.err.step, "bind"));
    assert_non_null(strstr(o.err.text, "open_tree: No such file or directory"));
    o = run(state, &(struct recipe){.script = "true", .exec_path = "/bin/nothing"});
    assert_int_equal(o.result.end, JAIL_END_SETUP);
    assert_non_null(strstr(o.err.step, "exec"));
    assert_string_equal(
        o.err.text, "execve: not in the jail, where there is no /usr/bin/nothing: No such file or directory");
    o = run(state, &(struct recipe){.script = "true", .exec_path = "nothing"});
    assert_int_equal(o.result.end, JAIL_END_SETUP);
    assert_int_equal(o.err.code, ENOENT);
    o = run(state, &(struct recipe){.script = "exit 7", .exec_path = "sh"});
    assert_int_equal(WEXITSTATUS(o.result.wstatus), 7);
}

static void test_denied_calls_are_counted(void **state)
{
    struct outcome o =
        run(state,
            &(struct recipe){.script = "exec 2>&1; for i in 1 2 3; do mkdir /work/$i; done; ls /work | wc -l",
                             HEARS_MKDIR});
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
    assert_non_null(strstr(o.output, "Operation not permitted"));
    assert_non_null(strstr(o.output, "0\n"));
    assert_int_equal(o.result.denied.n_rows, 1);
    assert_int_equal(o.result.denied.rows[0].nr, CALL_OF_MKDIR);
    assert_int_equal(o.result.denied.rows[0].count, 3);
}

static void test_children_end_with_the_program(void **state)
{
    struct outcome o =
        run(state, &(struct recipe){.script = "for i in 1 2 3; do setsid sleep 1000 & done; exit 4"});
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
    assert_int_equal(WEXITSTATUS(o.result.wstatus), 4);
    assert_true(o.result.duration_ns < 15 * NS_PER_S); /* not a thousand seconds, nor until the deadline */
}

/* The outer PIDs of a jail's processes, PID 1 first, once there are `n` and we have heard of its start: from
 * then on there is a deadline. False: it has ended before. */
static bool wait_for_processes(struct jail *jail, size_t n, pid_t *ret)
{
    while (jail_dispatch(jail) != JAIL_ENDED) {
        CLEANUP(census_free) struct census census;
        census_take(&census, jail_pid(jail));
        if (jail_state(jail) == JAIL_RUNNING && census.n == n) {
            for (size_t i = 0; i < n; i++) {
                ret[i] = census.processes[i].pid;
            }
            return true;
        }
        struct pollfd ready = {.fd = jail_fd(jail), .events = POLLIN};
        poll(&ready, 1, 1);
    }
    return false;
}

/* Until shortly after the deadline the jail has not ended. False: it has not begun long enough before that,
 * or is said to have missed it: on a machine that is busy, its program may have ended too late. */
static bool leaves_something_held(void **state, uint64_t timeout_ms)
{
    struct launch launch;
    launch_begin(state, &(struct recipe){.script = "setsid sleep 1000 & wait", .timeout_ms = timeout_ms},
                 NULL, &launch);
    pid_t pids[3]; /* PID 1, sh, sleep */
    bool begun = wait_for_processes(launch.jail, 3, pids);
    uint64_t deadline_ns = jail_deadline_ns(launch.jail);
    if (!begun || clock_now_ns() + NS_PER_S > deadline_ns) {
        launch_end(state, &launch);
        return false;
    }
    assert_int_equal(ptrace(PTRACE_SEIZE, pids[2], NULL, NULL), 0);
    assert_int_equal(kill(pids[1], SIGTERM), 0);
    while (clock_now_ns() < deadline_ns + 50 * NS_PER_MS) {
        struct pollfd ready = {.fd = jail_fd(launch.jail), .events = POLLIN};
        poll(&ready, 1, 10);
        assert_int_not_equal(jail_dispatch(launch.jail), JAIL_ENDED);
    }
    int wstatus;
    assert_int_equal(waitpid(pids[2], &wstatus, __WALL), pids[2]);
    launch_end(state, &launch);
    if (launch.outcome.result.end == JAIL_END_DEADLINE) {
        return false;
    }
    assert_int_equal(launch.outcome.result.end, JAIL_END_PROGRAM);
    assert_true(WIFSIGNALED(launch.outcome.result.wstatus));
    assert_int_equal(WTERMSIG(launch.outcome.result.wstatus), SIGTERM);
    assert_true(launch.outcome.result.duration_ns < timeout_ms * NS_PER_MS);
    return true;
}

/* What a program leaves behind may take long to end. Its own end counts, also where the deadline passes
 * meanwhile. The leftover here is held by us: as long as its tracer has not waited for it, PID 1 cannot. */
static void test_leftovers_do_not_change_the_verdict(void **state)
{
    /* A slow machine takes its time until there is something to leave. */
    assert_true(leaves_something_held(state, 3000) || leaves_something_held(state, 30000));
}

/* Holds `pid` at the gate of its exit, where the kernel would take its namespaces apart. It goes on when the
 * helper whose pid is returned has read from, or found the end of, `*ret_gate`. -1: we may not trace it (an
 * ordinary user may not, where a change of ids has made PID 1 one that cannot be dumped). */
static pid_t hold_at_exit(pid_t pid, int *ret_gate)
{
    int gate[2], held[2];
    char byte;
    assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
    assert_int_equal(pipe2(held, O_CLOEXEC), 0);
    pid_t helper = fork();
    if (helper == 0) {
        close(gate[1]);
        close(held[0]);
        bool ok = ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXIT) == 0 && write(held[1], "", 1) == 1;
        _exit(ok && read(gate[0], &byte, 1) >= 0 ? 0 : 1);
    }
    close(gate[0]);
    close(held[1]);
    ssize_t told = read(held[0], &byte, 1);
    close(held[0]);
    if (told != 1) {
        close(gate[1]);
        assert_int_equal(waitpid(helper, NULL, 0), helper);
        return -1;
    }
    *ret_gate = gate[1];
    return helper;
}

static void test_the_verdict_does_not_wait_for_pid_1(void **state)
{
    struct launch launch;
    launch_begin(state, &(struct recipe){.script = "setsid sleep 1000 & exec sleep 1000"}, NULL, &launch);
    pid_t pids[3];
    assert_true(wait_for_processes(launch.jail, 3, pids));
    int gate = -1;
    pid_t helper = hold_at_exit(pids[0], &gate);
    assert_int_equal(kill(pids[1], SIGTERM), 0);
    if (helper < 0 && geteuid() != 0) {
        launch_end(state, &launch);
        skip();
    }
    assert_true(helper > 0);
    while (jail_dispatch(launch.jail) != JAIL_ENDED) {
        struct pollfd ready = {.fd = jail_fd(launch.jail), .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 10000), 1);
    }
    assert_false(jail_is_gone(launch.jail));
    assert_int_equal(kill(pids[2], 0), -1); /* while nothing of the program's is left */
    assert_int_equal(jail_dispatch(launch.jail), JAIL_ENDED);
    assert_false(jail_is_gone(launch.jail));
    close(gate);
    assert_int_equal(waitpid(helper, NULL, 0), helper);
    while (!jail_is_gone(launch.jail)) {
        struct pollfd ready = {.fd = jail_fd(launch.jail), .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 10000), 1);
        jail_dispatch(launch.jail);
    }
    launch_end(state, &launch);
    assert_int_equal(launch.outcome.result.end, JAIL_END_PROGRAM);
    assert_int_equal(WTERMSIG(launch.outcome.result.wstatus), SIGTERM);
    assert_true(launch.outcome.result.cpu_ns > 0);
}

#define LOOKS 6000 /* one every 10 ms */

static bool becomes_outdated(const struct census *census)
{
    for (int i = 0; i < LOOKS; i++) {
        if (census_is_outdated(census)) {
            return true;
        }
        poll(NULL, 0, 10);
    }
    return false;
}

/* Whether it waits for something else than a processor, which on a busy machine it may not have had either.
 */
static bool sleeps(pid_t pid)
{
    char path[64];
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    assert_int_equal(io_read_file_at(AT_FDCWD, path, 4096, &text), 0);
    const char *name_end = strrchr(text.data, ')');
    return name_end && strncmp(name_end, ") S ", 4) == 0;
}

/* There are `n` processes, the shell among them sleeps, and a census holds. */
static bool comes_to_rest(struct census *census, const struct jail *jail, size_t n, pid_t shell)
{
    for (int i = 0; i < LOOKS; i++) {
        if (!census_is_outdated(census) && census->n == n && sleeps(shell)) {
            return true;
        }
        census_free(census);
        census_take(census, jail_pid(jail));
        poll(NULL, 0, 10);
    }
    return false;
}

static void test_a_census_holds_while_nobody_runs(void **state)
{
    struct launch launch;
    launch_begin(
        state,
        &(struct recipe){.script = "trap : USR1; sleep 1000 & wait; sleep 1000 & wait", .timeout_ms = 120000},
        NULL, &launch);
    pid_t pids[3];
    assert_true(wait_for_processes(launch.jail, 3, pids));
    CLEANUP(census_free) struct census census = {0};
    assert_true(census_is_outdated(&census));
    assert_true(comes_to_rest(&census, launch.jail, 3, pids[1]));
    assert_int_equal(kill(pids[1], SIGUSR1), 0);
    assert_true(becomes_outdated(&census));
    assert_true(comes_to_rest(&census, launch.jail, 4, pids[1]));
    jail_kill(launch.jail, JAIL_END_CANCEL);
    launch_end(state, &launch);
}

static void test_memory_watch(void **state)
{
    struct outcome o =
        run(state, &(struct recipe){.script = "perl -e 'my @a; push @a, \"x\" x 1048576 while 1'",
                                    .memory_bytes = 64 << 20});
    assert_int_equal(o.result.end, JAIL_END_OOM);
    o = run(state, &(struct recipe){.script = "perl -e 'my $a = \"x\" x 20000000; fork for 1..3; sleep 1'",
                                    .memory_bytes = 128 << 20});
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
}

static void test_cpu_watch(void **state)
{
    struct outcome o =
        run(state, &(struct recipe){.script = "(while :; do :; done) & while :; do :; done", .cpu_ms = 200});
    assert_int_equal(o.result.end, JAIL_END_CPU);
    assert_in_range(o.result.cpu_ns / 1000000, 150, 39000); /* late by as much as we are kept from watching */
}

static void test_cpu_is_counted(void **state)
{
    struct outcome o = run(state, &(struct recipe){.script = "perl -e '$i=0; $i++ while times < 0.3'"});
    assert_in_range(o.result.cpu_ns / 1000000, 250, 19000); /* a busy host makes it more */
}

static void test_process_limit_is_the_jails_own(void **state)
{
    struct outcome o = run(
        state,
        &(struct recipe){.script = "exec 2>&1; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 10 & done; wait -n",
                         .limited_resource = RLIMIT_NPROC,
                         .limit = {.rlim_cur = 6, .rlim_max = 6}});
    assert_non_null(strstr(o.output, "ork"));
}

/* 1 is what stops a core handler of the host, too; where the parent has less itself, less. */
static void test_core_limit(void **state)
{
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_CORE, &before), 0);
    struct outcome o = run(state, &(struct recipe){.script = "sed -n 's/^Max core file size *//p' "
                                                             "/proc/self/limits; kill -SEGV $$",
                                                   .limited_resource = RLIMIT_CORE,
                                                   .limited = true});
    assert_string_equal(o.output, before.rlim_max > 0
                                      ? "1                    1                    bytes     \n"
                                      : "0                    0                    bytes     \n");
    assert_int_equal(o.result.wstatus, SIGSEGV); /* without the flag that says that a core was dumped */
}

static void test_nothing_is_left_behind(void **state)
{
    run(state, &(struct recipe){.script = "true"});
    size_t descriptors = count_entries("/proc/self/fd");
    for (int i = 0; i < 20; i++) {
        run(state, &(struct recipe){.script = "sleep 100 & exit 0"});
        run(state, &(struct recipe){.script = "true", .bind_source = "/nowhere"});
    }
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* By the descriptor that callers watch, and nothing else. */
static struct outcome run_by_descriptor(void **state, const struct recipe *recipe)
{
    struct launch launch;
    launch_begin(state, recipe, NULL, &launch);
    assert_non_null(launch.jail);
    while (jail_dispatch(launch.jail) != JAIL_ENDED || !jail_is_gone(launch.jail)) {
        struct pollfd ready = {.fd = jail_fd(launch.jail), .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 30000), 1);
    }
    launch_end(state, &launch);
    return launch.outcome;
}

static void check_without_watches(void **state)
{
    take_all_watches();
    struct outcome o = run_by_descriptor(state, &(struct recipe){.script = "echo out; exit 3"});
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
    assert_int_equal(WEXITSTATUS(o.result.wstatus), 3);
    assert_string_equal(o.output, "out\n");
    o = run_by_descriptor(state, &(struct recipe){.script = "sleep 100", .timeout_ms = 200});
    assert_int_equal(o.result.end, JAIL_END_DEADLINE);
    assert_in_range(o.result.duration_ns, 200 * NS_PER_MS, 20 * NS_PER_S);
    o = run_by_descriptor(state, &(struct recipe){.script = "true", .bind_source = "/nowhere"});
    assert_int_equal(o.result.end, JAIL_END_SETUP);
}

static void test_without_epoll_watches(void **state)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        check_without_watches(state);
        _exit(0);
    }
    int wstatus;
    assert_int_equal(waitpid(pid, &wstatus, 0), pid);
    assert_int_equal(wstatus, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_no_set_id),
        cmocka_unit_test(test_landlock_is_a_second_wall),
        cmocka_unit_test(test_speculation),
        cmocka_unit_test(test_environment_and_descriptors),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_scratch_limit),
        cmocka_unit_test(test_loopback),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_setup_failures_are_named),
        cmocka_unit_test(test_denied_calls_are_counted),
        cmocka_unit_test(test_children_end_with_the_program),
        cmocka_unit_test(test_leftovers_do_not_change_the_verdict),
        cmocka_unit_test(test_the_verdict_does_not_wait_for_pid_1),
        cmocka_unit_test(test_a_census_holds_while_nobody_runs),
        cmocka_unit_test(test_memory_watch),
        cmocka_unit_test(test_cpu_watch),
        cmocka_unit_test(test_cpu_is_counted),
        cmocka_unit_test(test_process_limit_is_the_jails_own),
        cmocka_unit_test(test_core_limit),
        cmocka_unit_test(test_without_epoll_watches),
        cmocka_unit_test(test_nothing_is_left_behind),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
