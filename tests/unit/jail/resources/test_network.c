/* jail/resources/network.c: a network namespace that belongs to somebody else's user namespace, with nothing
 * left behind in the process that had it made; and jails where the way to that is barred. */
#include "jail/resources/network.h"

#include "tests/unit/jail/launch.h"

#include <linux/audit.h>
#include <linux/nsfs.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static ino_t inode_of(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_ino;
}

static ino_t inode_at(const char *path)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return inode_of(fd);
}

/* A process in a user namespace of its own that waits for the end of `until`. */
static pid_t start_other(int until, int not_ours)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        char byte;
        close(not_ours);
        _exit(read(until, &byte, 1) == 0 ? 0 : 1);
    }
    return pid;
}

static void test_it_belongs_to_the_user_namespace(void **state)
{
    (void)state;
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    pid_t other = start_other(pipes[0], pipes[1]);
    assert_true(other > 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", other);
    CLEANUP(fd_closep) int userns = open(path, O_RDONLY | O_CLOEXEC);
    ino_t our_user = inode_at("/proc/self/ns/user"), our_net = inode_at("/proc/self/ns/net");
    int dumpable = prctl(PR_GET_DUMPABLE);

    int sockets[2], network;
    char byte = 0;
    size_t n_fds = 1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    assert_int_equal(network_send(userns, sockets[0], "n", 1), 0);
    close(sockets[0]);
    assert_int_equal(io_recv_fds(sockets[1], &byte, 1, &network, &n_fds), 1);
    assert_int_equal(byte, 'n');
    assert_int_equal(n_fds, 1);
    /* Nobody else holds the other end any more, and it was one message. */
    assert_int_equal(recv(sockets[1], &byte, 1, 0), 0);
    close(sockets[1]);
    assert_true(fcntl(network, F_GETFD) & FD_CLOEXEC);
    assert_true(inode_of(network) != our_net);
    CLEANUP(fd_closep) int owner = ioctl(network, NS_GET_USERNS);
    assert_int_equal(inode_of(owner), inode_of(userns));

    assert_int_equal(inode_at("/proc/self/ns/user"), our_user);
    assert_int_equal(inode_at("/proc/self/ns/net"), our_net);
    assert_int_equal(prctl(PR_GET_DUMPABLE), dumpable);
    close(pipes[0]);
    close(pipes[1]);
    close(network);
    assert_int_equal(waitpid(other, NULL, 0), other);
    assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1); /* the helper has been waited for */
}

static void test_failures_are_told(void **state)
{
    (void)state;
    int sockets[2];
    char byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    assert_int_equal(network_send(-1, sockets[0], "n", 1), -EBADF);
    CLEANUP(fd_closep) int no_namespace = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(network_send(no_namespace, sockets[0], "n", 1), -EINVAL);
    assert_int_equal(recv(sockets[1], &byte, 1, MSG_DONTWAIT), -1);
    close(sockets[0]);
    close(sockets[1]);
    assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
}

/* From here on, setns fails with EPERM, here and in all jails. */
static void bar_setns(void)
{
    const struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setns, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = ARRAY_SIZE(filter), .filter = (struct sock_filter *)filter};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void assert_own_network(void **state, bool loopback)
{
    struct outcome o =
        run(state, &(struct recipe){.script = "readlink /proc/self/ns/net", .loopback = loopback});
    assert_string_equal(o.err.text, "");
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
    assert_int_equal(strncmp(o.output, "net:[", 5), 0);
    assert_true(strtoul(o.output + 5, NULL, 10) != inode_at("/proc/self/ns/net"));
}

/* The last test: what it does to this process stays. */
static void test_a_jail_has_its_own_with_and_without_our_help(void **state)
{
    assert_own_network(state, false);
    assert_own_network(state, true);
    bar_setns();
    assert_own_network(state, false);
    assert_own_network(state, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_belongs_to_the_user_namespace),
        cmocka_unit_test(test_failures_are_told),
        cmocka_unit_test(test_a_jail_has_its_own_with_and_without_our_help),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
