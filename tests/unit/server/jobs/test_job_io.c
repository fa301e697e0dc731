/* server/jobs/job_io.c: pipes that never block us, whatever the program does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/loop.h"
#include "server/jobs/job_io.h"
#include "server/kit/capture.h"

static void close_ends(int ends[JOB_IO_ENDS])
{
    for (int i = 0; i < JOB_IO_ENDS; i++) {
        fd_closep(&ends[i]);
    }
}

static void the_programs_ends_are_as_it_expects(void **state)
{
    (void)state;
    struct loop *loop;
    struct job_io *io;
    int ends[JOB_IO_ENDS];
    char byte;
    assert_int_equal(loop_new(&loop, NULL), 0);
    assert_int_equal(job_io_new(loop, 100, NULL, 0, ends, &io, NULL), 0);
    for (int i = 0; i < JOB_IO_ENDS; i++) {
        assert_int_equal(fcntl(ends[i], F_GETFL) & O_NONBLOCK, 0);
        assert_int_equal(fcntl(ends[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    }
    assert_int_equal(read(ends[JOB_IO_STDIN], &byte, 1), 0); /* end of file at once */
    close_ends(ends);
    job_io_free(io);
    loop_free(loop);
}

static void feeds_stdin_as_it_is_read(void **state)
{
    (void)state;
    enum { SIZE = 300000 };
    struct loop *loop;
    struct job_io *io;
    int ends[JOB_IO_ENDS];
    char *data = malloc(SIZE), *got = malloc(SIZE + 1);
    for (size_t i = 0; i < SIZE; i++) {
        data[i] = (char)(i % 251);
    }
    char *expected = malloc(SIZE);
    memcpy(expected, data, SIZE);
    assert_int_equal(loop_new(&loop, NULL), 0);
    assert_int_equal(job_io_new(loop, 100, data, SIZE, ends, &io, NULL), 0);
    size_t done = 0;
    for (;;) {
        loop_once(loop, 0, NULL);
        ssize_t n = read(ends[JOB_IO_STDIN], got + done, SIZE + 1 - done);
        assert_true(n >= 0);
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    assert_int_equal(done, SIZE);
    assert_memory_equal(got, expected, SIZE);
    close_ends(ends);
    job_io_free(io);
    loop_free(loop);
    free(expected);
    free(got);
}

static void survives_a_program_that_does_not_read(void **state)
{
    (void)state;
    struct loop *loop;
    struct job_io *io;
    int ends[JOB_IO_ENDS];
    char *data = calloc(1, 200000);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(loop_new(&loop, NULL), 0);
    assert_int_equal(job_io_new(loop, 100, data, 200000, ends, &io, NULL), 0);
    fd_closep(&ends[JOB_IO_STDIN]);
    assert_int_equal(loop_once(loop, 1000, NULL), 0);
    assert_int_equal(loop_once(loop, 0, NULL), 0);
    assert_int_equal(job_io_finish(io, 0, NULL), 0);
    close_ends(ends);
    job_io_free(io);
    loop_free(loop);
}

static void drains_a_program_that_prints_too_much(void **state)
{
    (void)state;
    struct loop *loop;
    struct job_io *io;
    int ends[JOB_IO_ENDS];
    static char block[65536];
    memset(block, 'x', sizeof block);
    assert_int_equal(loop_new(&loop, NULL), 0);
    assert_int_equal(job_io_new(loop, 1000, NULL, 0, ends, &io, NULL), 0);
    for (int i = 0; i < 20; i++) { /* each would block for ever if nobody read the one before */
        assert_int_equal(write(ends[JOB_IO_STDOUT], block, sizeof block), sizeof block);
        struct pollfd room = {.fd = ends[JOB_IO_STDOUT], .events = POLLOUT};
        while (poll(&room, 1, 0) == 0) {
            loop_once(loop, 1000, NULL);
        }
    }
    assert_int_equal(write(ends[JOB_IO_STDERR], "end", 3), 3);
    close_ends(ends);
    assert_int_equal(job_io_finish(io, 0, NULL), 0);
    const struct capture *capture = job_io_capture(io);
    assert_int_equal(capture->streams[CAPTURE_STDOUT].len, 1000);
    assert_true(capture->truncated[CAPTURE_STDOUT]);
    assert_int_equal(capture->streams[CAPTURE_STDERR].len, 3);
    job_io_free(io);
    loop_free(loop);
}

/* What was written before the end is taken; that somebody still holds the pipe is no reason to wait. */
static void does_not_wait_for_the_end_of_file(void **state)
{
    (void)state;
    struct loop *loop;
    struct job_io *io;
    int ends[JOB_IO_ENDS];
    assert_int_equal(loop_new(&loop, NULL), 0);
    assert_int_equal(job_io_new(loop, 1000, NULL, 0, ends, &io, NULL), 0);
    assert_int_equal(write(ends[JOB_IO_STDOUT], "said", 4), 4);
    assert_int_equal(job_io_finish(io, 2, NULL), 0);
    assert_int_equal(job_io_capture(io)->streams[CAPTURE_STDOUT].len, 2);
    job_io_free(io);
    close_ends(ends);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_programs_ends_are_as_it_expects),
        cmocka_unit_test(feeds_stdin_as_it_is_read),
        cmocka_unit_test(survives_a_program_that_does_not_read),
        cmocka_unit_test(drains_a_program_that_prints_too_much),
        cmocka_unit_test(does_not_wait_for_the_end_of_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
