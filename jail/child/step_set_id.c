/* The step of jails that write to their caller's own directories.
 *
 * What the program leaves there belongs to somebody outside, perhaps to root, and the jail's nosuid does not
 * hold there: a file with a set-user-ID bit would make whoever runs it that somebody. So no file gets such a
 * bit, by a filter in front of the policy's own: of two, the stricter answer counts.
 *
 * Child side: raw system calls only. */
#include "jail/child/step.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/bpf.h"
#include "jail/base/cleanup.h"
#include "jail/child/child.h"

#define SET_ID_BITS (S_ISUID | S_ISGID)
#define CREATES     (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
#define ARGUMENT(n) (offsetof(struct seccomp_data, args) + (n) * sizeof(uint64_t))
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the half that is looked at comes first");

#define REFUSE(code) BPF_DO(BPF_DO_RETURN, SECCOMP_RET_ERRNO | (code))
#define ALLOW        BPF_DO(BPF_DO_RETURN, SECCOMP_RET_ALLOW)

/* A call with a mode. */
#define MODE(call, argument)                                                                                 \
    BPF_SKIP(BPF_IF_EQ, SYS_##call, 0, 4), BPF_DO(BPF_DO_LOAD, ARGUMENT(argument)),                          \
        BPF_SKIP(BPF_IF_ANY, SET_ID_BITS, 0, 1), REFUSE(EPERM), ALLOW
/* One whose mode counts where its flags make a file. */
#define MODE_IF_MADE(call, flags, argument)                                                                  \
    BPF_SKIP(BPF_IF_EQ, SYS_##call, 0, 6), BPF_DO(BPF_DO_LOAD, ARGUMENT(flags)),                             \
        BPF_SKIP(BPF_IF_ANY, CREATES, 0, 3), BPF_DO(BPF_DO_LOAD, ARGUMENT(argument)),                        \
        BPF_SKIP(BPF_IF_ANY, SET_ID_BITS, 0, 1), REFUSE(EPERM), ALLOW
/* One whose mode lies where no filter can look; programs do without it. */
#define NONE(call) BPF_SKIP(BPF_IF_EQ, SYS_##call, 0, 1), REFUSE(ENOSYS)

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define X32_BIT 0x40000000u

static const struct sock_filter no_set_id[] = {
    BPF_DO(BPF_DO_LOAD, BPF_ARCHITECTURE),
    BPF_SKIP(BPF_IF_EQ, BPF_OUR_ARCHITECTURE, 1, 0),
    REFUSE(ENOSYS), /* their calls have other numbers */
    BPF_DO(BPF_DO_LOAD, BPF_NUMBER),
    BPF_SKIP(BPF_IF_GE, X32_BIT, 0, 1),
    REFUSE(ENOSYS),
    MODE_IF_MADE(openat, 2, 3),
#ifdef SYS_open
    MODE_IF_MADE(open, 1, 2),
    MODE(creat, 1),
    MODE(chmod, 1),
    MODE(mknod, 1),
#endif
    MODE(fchmod, 1),
    MODE(fchmodat, 2),
    MODE(fchmodat2, 2),
    MODE(mknodat, 2),
    NONE(openat2),
    NONE(io_uring_setup),
    ALLOW,
};

int step_NO_SET_ID(struct child *child, const struct jail_step *step)
{
    (void)step;
    const struct sock_fprog program = {.len = ARRAY_SIZE(no_set_id), .filter = (void *)no_set_id};
    child->call = "seccomp";
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}
