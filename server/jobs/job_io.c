/* A job's pipes. Runs in the front, on its loop; never blocks on a program. The program's ends are blocking,
 * as a program expects; ours are not. */
#include "server/jobs/job_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "server/kit/capture.h"

struct outlet {
    struct job_io *io;
    enum capture_stream stream;
    int fd;
    struct loop_source *source;
};

struct job_io {
    struct loop *loop;
    struct capture capture;
    struct outlet outlets[CAPTURE_STREAMS];
    int stdin_fd;
    struct loop_source *stdin_source;
    char *stdin_data;
    size_t stdin_size, stdin_done;
    void (*output)(void *arg); /* NULL: nobody is told */
    void *output_arg;
};

static void close_outlet(struct outlet *outlet)
{
    loop_remove(outlet->source);
    outlet->source = NULL;
    fd_closep(&outlet->fd);
}

static void close_stdin(struct job_io *io)
{
    loop_remove(io->stdin_source);
    io->stdin_source = NULL;
    fd_closep(&io->stdin_fd);
    free(TAKE_PTR(io->stdin_data));
}

void job_io_free(struct job_io *io)
{
    if (io) {
        close_outlet(&io->outlets[CAPTURE_STDOUT]);
        close_outlet(&io->outlets[CAPTURE_STDERR]);
        close_stdin(io);
        capture_clear(&io->capture);
        free(io);
    }
}

/* One read a round, so that a program that prints without end does not keep the others waiting. */
static void on_output(void *arg, uint32_t events)
{
    (void)events;
    struct outlet *outlet = arg;
    struct job_io *io = outlet->io;
    if (capture_read(&io->capture, outlet->stream, outlet->fd) == CAPTURE_END) {
        close_outlet(outlet);
    } else if (io->output) {
        io->output(io->output_arg);
    }
}

/* Returns true when there is nothing left to write, or nobody to read it. */
static bool feed_stdin(struct job_io *io)
{
    while (io->stdin_done < io->stdin_size) {
        ssize_t n = write(io->stdin_fd, io->stdin_data + io->stdin_done, io->stdin_size - io->stdin_done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno != EAGAIN;
        }
        io->stdin_done += (size_t)n;
    }
    return true;
}

static void on_stdin(void *arg, uint32_t events)
{
    (void)events;
    struct job_io *io = arg;
    if (feed_stdin(io)) {
        close_stdin(io);
    }
}

/* `ours`: 0 for the reading end, 1 for the writing one. */
static int make_pipe(int ours, int *ret_ours, int *ret_theirs, struct err *reterr)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return err_errno(reterr, errno, "making a pipe");
    }
    *ret_ours = ends[ours];
    *ret_theirs = ends[!ours];
    /* To the program the pipe is a stranger's: this is what lets it open /dev/stdin or /dev/stdout. */
    mode_t mode = S_IRUSR | S_IWUSR | (ours == 1 ? S_IROTH : S_IWOTH);
    if (fcntl(ends[ours], F_SETFL, O_NONBLOCK) < 0 || fchmod(ends[ours], mode) < 0) {
        return err_errno(reterr, errno, "setting up a pipe");
    }
    return 0;
}

static int open_outlet(struct job_io *io, enum capture_stream stream, int *ret_end, struct err *reterr)
{
    struct outlet *outlet = &io->outlets[stream];
    int r = make_pipe(0, &outlet->fd, ret_end, reterr);
    return r < 0 ? r : loop_add(io->loop, outlet->fd, EPOLLIN, on_output, outlet, &outlet->source, reterr);
}

static int open_stdin(struct job_io *io, int *ret_end, struct err *reterr)
{
    int r = make_pipe(1, &io->stdin_fd, ret_end, reterr);
    if (r < 0) {
        return r;
    }
    if (feed_stdin(io)) {
        fd_closep(&io->stdin_fd);
        return 0;
    }
    return loop_add(io->loop, io->stdin_fd, EPOLLOUT, on_stdin, io, &io->stdin_source, reterr);
}

int job_io_new(struct loop *loop, size_t output_limit_bytes, char *stdin_data, size_t stdin_size,
               int ret_ends[JOB_IO_ENDS], struct job_io **ret, struct err *reterr)
{
    struct job_io *io = calloc(1, sizeof *io);
    if (!io) {
        return err_errno(reterr, ENOMEM, "making a job's pipes");
    }
    *io = (struct job_io){.loop = loop, .stdin_fd = -1, .stdin_size = stdin_size};
    io->stdin_data = stdin_data;
    capture_init(&io->capture, output_limit_bytes);
    for (int i = 0; i < CAPTURE_STREAMS; i++) {
        io->outlets[i] = (struct outlet){.io = io, .stream = (enum capture_stream)i, .fd = -1};
    }
    int ends[JOB_IO_ENDS] = {-1, -1, -1};
    int r = open_outlet(io, CAPTURE_STDOUT, &ends[JOB_IO_STDOUT], reterr);
    if (r == 0) {
        r = open_outlet(io, CAPTURE_STDERR, &ends[JOB_IO_STDERR], reterr);
    }
    if (r == 0) {
        r = open_stdin(io, &ends[JOB_IO_STDIN], reterr);
    }
    if (r < 0) {
        for (int i = 0; i < JOB_IO_ENDS; i++) {
            fd_closep(&ends[i]);
        }
        io->stdin_data = NULL; /* still the caller's */
        job_io_free(io);
        return r;
    }
    memcpy(ret_ends, ends, sizeof ends);
    *ret = io;
    return 0;
}

void job_io_on_output(struct job_io *io, void (*output)(void *arg), void *arg)
{
    io->output = output;
    io->output_arg = arg;
}

int job_io_finish(struct job_io *io, size_t output_limit_bytes, struct err *reterr)
{
    for (int i = 0; i < CAPTURE_STREAMS; i++) {
        struct outlet *outlet = &io->outlets[i];
        /* What a kernel's program has printed is in there by now; what its processes go on printing is
         * nobody's. */
        for (size_t reads = io_reads_pending(outlet->fd, CAPTURE_READ_BYTES); reads > 0; reads--) {
            capture_read(&io->capture, outlet->stream, outlet->fd);
        }
        close_outlet(outlet);
    }
    close_stdin(io);
    return capture_finish(&io->capture, output_limit_bytes) < 0
               ? err_errno(reterr, ENOMEM, "keeping a job's output")
               : 0;
}

const struct capture *job_io_capture(const struct job_io *io)
{
    return &io->capture;
}
