/* Steps that decide who the program is and what it may become: ids, capabilities, names, session.
 *
 * Child side: raw system calls only. */
#include "jail/child/step.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/child/child.h"

#define CAPABILITIES_MAX 64
#define EGRESS_BACKLOG   128 /* connections that nobody has taken yet; the kernel holds more back */

/* Dies with the parent. The kernel forgets this whenever the ids change, so it comes after; and a parent that
 * was gone before cannot be noticed by it, so the control socket is asked. */
static int die_with_parent(struct child *child)
{
    child->call = "prctl";
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) {
        return -errno;
    }
    char byte;
    child->call = "recv";
    ssize_t n;
    do {
        n = recv(child->control, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n == 0 ? -EPIPE : n < 0 && errno != EAGAIN ? -errno : 0;
}

int step_IDENTITY(struct child *child, const struct jail_step *step)
{
    uint32_t uid = step->identity.uid;
    uint32_t gid = step->identity.gid;
    /* Raw calls: glibc's own would take a lock to tell other threads, of which there are none. */
    child->call = "setresgid";
    if (syscall(SYS_setresgid, gid, gid, gid) < 0) {
        return -errno;
    }
    child->call = "setgroups";
    if (child->drop_groups && syscall(SYS_setgroups, 0, NULL) < 0) {
        return -errno;
    }
    child->call = "setresuid";
    /* Keeps the capabilities: 0 is not mapped in here, so the kernel sees nobody cease to be root. */
    if (syscall(SYS_setresuid, uid, uid, uid) < 0) {
        return -errno;
    }
    /* Nothing in here may be read or traced by the program, which will have our uid: memory, descriptors,
     * /proc/1. After the change of ids, which sets this to fs.suid_dumpable. The parent has until now needed
     * the opposite, to write our idmaps. */
    child->call = "PR_SET_DUMPABLE";
    if (prctl(PR_SET_DUMPABLE, 0) < 0) {
        return -errno;
    }
    return die_with_parent(child);
}

int step_LOOPBACK(struct child *child, const struct jail_step *step)
{
    (void)step;
    child->call = "socket";
    CLEANUP(fd_closep) int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0 /* NETLINK_ROUTE */);
    if (netlink < 0) {
        return -errno;
    }
    struct child_message message;
    memset(&message, 0, sizeof message);
    message.kind = CHILD_LOOPBACK;
    child->call = "sendmsg";
    int r = child_send(child, &message, netlink);
    if (r < 0) {
        return r;
    }
    child->call = "RTM_NEWLINK";
    return child_receive(child, PHASE_LOOPBACK);
}

/* Nobody in here keeps the socket: what connects to it reaches whoever the parent hands it to. */
int step_EGRESS(struct child *child, const struct jail_step *step)
{
    (void)step;
    child->call = "socket";
    CLEANUP(fd_closep) int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listening < 0) {
        return -errno;
    }
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(JAIL_EGRESS_PORT),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    child->call = "bind";
    if (bind(listening, (const struct sockaddr *)&address, sizeof address) < 0) {
        return -errno;
    }
    child->call = "listen";
    if (listen(listening, EGRESS_BACKLOG) < 0) {
        return -errno;
    }
    struct child_message message;
    memset(&message, 0, sizeof message);
    message.kind = CHILD_EGRESS;
    child->call = "sendmsg";
    return child_send(child, &message, listening);
}

int step_HOSTNAME(struct child *child, const struct jail_step *step)
{
    const char *name = jail_plan_string(child->plan, step->hostname.name);
    child->call = "sethostname";
    if (sethostname(name, strlen(name)) < 0) {
        return -errno;
    }
    child->call = "setdomainname";
    return setdomainname("", 0) < 0 ? -errno : 0;
}

/* Set-user-ID root, uid 0 and ambient sets never give a capability again, and no exec can change that. */
static int lock_securebits(struct child *child, uint64_t keep)
{
    unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |
                         SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED |
                         (keep == 0 ? SECBIT_NO_CAP_AMBIENT_RAISE : 0);
    child->call = "PR_SET_SECUREBITS";
    return prctl(PR_SET_SECUREBITS, bits) < 0 ? -errno : 0;
}

static int drop_bounding(struct child *child, uint64_t keep)
{
    child->call = "PR_CAPBSET_DROP";
    for (unsigned long cap = 0; cap < CAPABILITIES_MAX; cap++) {
        if ((keep >> cap) & 1) {
            continue;
        }
        if (prctl(PR_CAPBSET_DROP, cap) < 0) {
            if (errno == EINVAL && cap > CAP_AUDIT_READ) {
                return 0; /* past the last one this kernel knows */
            }
            return -errno;
        }
    }
    return 0;
}

static int set_sets(struct child *child, uint64_t keep)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    for (unsigned i = 0; i < 2; i++) {
        uint32_t half = (uint32_t)(keep >> (32 * i));
        data[i].effective = data[i].permitted = data[i].inheritable = half;
    }
    child->call = "capset";
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int step_CAPABILITIES(struct child *child, const struct jail_step *step)
{
    uint64_t keep = step->capabilities.keep;
    int r = drop_bounding(child, keep);
    if (r < 0) {
        return r;
    }
    child->call = "PR_CAP_AMBIENT";
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) {
        return -errno;
    }
    /* Raising ambient ones asks for them in the inheritable set first. */
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    child->call = "capget";
    if (syscall(SYS_capget, &header, data) < 0) {
        return -errno;
    }
    data[0].inheritable = (uint32_t)keep;
    data[1].inheritable = (uint32_t)(keep >> 32);
    child->call = "capset";
    if (syscall(SYS_capset, &header, data) < 0) {
        return -errno;
    }
    child->call = "PR_CAP_AMBIENT";
    for (unsigned long cap = 0; cap < CAPABILITIES_MAX; cap++) {
        if (((keep >> cap) & 1) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0) {
            return -errno;
        }
    }
    r = lock_securebits(child, keep);
    return r < 0 ? r : set_sets(child, keep);
}

int step_NO_NEW_PRIVS(struct child *child, const struct jail_step *step)
{
    (void)step;
    child->call = "PR_SET_NO_NEW_PRIVS";
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

int step_SESSION(struct child *child, const struct jail_step *step)
{
    child->call = "setsid";
    if (setsid() < 0) {
        return -errno;
    }
    child->call = "ioctl";
    if (step->session.terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0) {
        return -errno;
    }
    /* clone3 has reset the handlers, but what the parent ignores (SIGPIPE, or SIGHUP under nohup) is still
     * ignored. So are, under make and whatever else uses posix_spawn, the two signals that glibc keeps for
     * itself: signal(2) would refuse those, the kernel does not. */
    static const unsigned char kernel_default_action[32];
    child->call = "rt_sigaction";
    for (int sig = 1; sig < NSIG && !child->in_process; sig++) {
        if (sig != SIGKILL && sig != SIGSTOP &&
            syscall(SYS_rt_sigaction, sig, kernel_default_action, NULL, 8) < 0) {
            return -errno;
        }
    }
    sigset_t none;
    sigemptyset(&none);
    child->call = "sigprocmask";
    return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}
