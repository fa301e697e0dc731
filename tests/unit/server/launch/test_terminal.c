/* server/launch/terminal.c: two terminals, and what goes from one to the other. */
#include "server/launch/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"

/* Our own standard descriptors, while a terminal stands in for them. */
struct fixture {
    int kept[2], caller; /* the other end of the caller's terminal */
};

static int stand_in(void **state)
{
    static struct fixture f;
    f.caller = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (f.caller < 0 || unlockpt(f.caller) < 0) {
        return -1;
    }
    int its = ioctl(f.caller, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    for (int i = 0; i < 2; i++) {
        f.kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
        if (its < 0 || dup2(its, i) < 0) {
            return -1;
        }
    }
    close(its);
    *state = &f;
    return 0;
}

static int stand_back(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        dup2(f->kept[i], i);
        close(f->kept[i]);
    }
    return close(f->caller);
}

static void relay_once(struct terminal *terminal)
{
    struct pollfd polled[2];
    terminal_watch(terminal, polled);
    assert_true(poll(polled, 2, 10000) > 0);
    terminal_relay(terminal, polled);
}

static void test_both_ways(void **state)
{
    const struct fixture *f = *state;
    const struct winsize size = {.ws_row = 33, .ws_col = 101}, other = {.ws_row = 44, .ws_col = 120};
    struct winsize seen;
    struct termios before, during, after;
    struct terminal terminal = TERMINAL_NONE;
    char text[16] = "";
    assert_int_equal(ioctl(f->caller, TIOCSWINSZ, &size), 0);
    assert_int_equal(tcgetattr(STDIN_FILENO, &before), 0);
    assert_int_equal(terminal_check(NULL), 0);
    assert_int_equal(terminal_open(&terminal, NULL), 0);
    CLEANUP(fd_closep) int jail = fcntl(terminal.slave, F_DUPFD_CLOEXEC, 3);
    terminal_given(&terminal);
    /* Keys are the jail's, ^C too; it has the size, and the settings that ours had. */
    assert_int_equal(tcgetattr(STDIN_FILENO, &during), 0);
    assert_int_equal(during.c_lflag & (ICANON | ISIG | ECHO), 0);
    assert_int_equal(tcgetattr(jail, &after), 0);
    assert_int_equal(after.c_lflag, before.c_lflag);
    assert_int_equal(ioctl(jail, TIOCGWINSZ, &seen), 0);
    assert_true(seen.ws_row == 33 && seen.ws_col == 101);
    assert_int_equal(write(f->caller, "hi\n", 3), 3);
    relay_once(&terminal);
    assert_int_equal(read(jail, text, sizeof text), 3);
    assert_memory_equal(text, "hi\n", 3);
    assert_int_equal(write(jail, "there", 5), 5);
    size_t n = 0;
    char printed[32] = "";
    while (!strstr(printed, "there")) {
        relay_once(&terminal);
        ssize_t more = read(f->caller, printed + n, sizeof printed - 1 - n);
        assert_true(more > 0);
        n += (size_t)more;
    }
    assert_int_equal(ioctl(f->caller, TIOCSWINSZ, &other), 0);
    terminal_resize(&terminal);
    assert_int_equal(ioctl(jail, TIOCGWINSZ, &seen), 0);
    assert_true(seen.ws_row == 44 && seen.ws_col == 120);
    terminal_close(&terminal);
    assert_int_equal(tcgetattr(STDIN_FILENO, &after), 0);
    assert_int_equal(after.c_lflag, before.c_lflag);
    assert_int_equal(after.c_iflag, before.c_iflag);
    assert_int_equal(terminal.master, -1);
}

static void test_none(void **state)
{
    (void)state;
    struct terminal terminal = TERMINAL_NONE;
    struct pollfd polled[2];
    terminal_watch(&terminal, polled);
    assert_true(polled[0].fd < 0 && polled[1].fd < 0);
    terminal_resize(&terminal);
    terminal_close(&terminal);
    int kept = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    struct err err = {0};
    int r = terminal_check(&err);
    dup2(kept, STDIN_FILENO);
    close(kept);
    close(null);
    assert_int_equal(r, -ENOTTY);
    assert_int_equal(err.kind, ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_both_ways, stand_in, stand_back),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
