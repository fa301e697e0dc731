/* Denied system calls of a front. Runs in the warden. A front at its normal work makes none, so each is a
 * sign: of a library that has changed, or of somebody else in the front. The front waits for our answer, we
 * never wait for it. */
#include "server/warden/front_denials.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>

#include "policy/policy.h"

/* No call has number 0 yet: a listener says that there is none, anything else does not know the question. */
int front_denials_check(int listener)
{
    uint64_t none = 0;
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &none) < 0 && errno == ENOENT ? 0 : -EBADF;
}

int front_denials_answer(int listener, char *ret_name, size_t size)
{
    struct seccomp_notif call;
    memset(&call, 0, sizeof call); /* the kernel insists */
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0) {
        return errno == ENOENT || errno == EINTR || errno == EAGAIN ? 0 : -errno;
    }
    struct seccomp_notif_resp answer = {.id = call.id, .error = -EPERM};
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* its caller may be gone: no harm */
    const char *name = policy_syscall_name(call.data.arch, call.data.nr, ret_name, size);
    if (name != ret_name) {
        strncpy(ret_name, name, size - 1);
        ret_name[size - 1] = '\0';
    }
    return 1;
}
