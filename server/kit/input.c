/* The anonymous file that a job's program and files travel in. Runs in the front, which fills one from a
 * request, and in the warden, which fills one from a job that has waited for its approval. */
#include "server/kit/input.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

int input_new(struct input *ret, struct err *reterr)
{
    int fd = memfd_create("immure-input", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return err_errno(reterr, errno, "making an anonymous file");
    }
    *ret = (struct input){.fd = fd};
    return 0;
}

void input_clear(struct input *input)
{
    fd_closep(&input->fd);
}

int input_append(struct input *input, const void *data, size_t size, struct err *reterr)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = pwrite(input->fd, (const char *)data + done, size - done, (off_t)(input->size + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_errno(reterr, errno, "writing an anonymous file");
        }
        done += (size_t)n;
    }
    input->size += size;
    return 0;
}

int input_seal(struct input *input, struct err *reterr)
{
    int r = io_memfd_seal(&input->fd, input->size);
    if (r == -EBUSY) {
        return err_set(reterr, ERR_BUSY, EBUSY, NULL, "server busy: the job's input could not be sealed");
    }
    return r < 0 ? err_errno(reterr, -r, "sealing an anonymous file") : 0;
}
