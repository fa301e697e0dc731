/* The terminal of `immure shell`. Runs in the process of the command line.
 *
 * The jail never has the caller's terminal itself: it could read what is typed later, and leave it unusable.
 * It has a pseudo-terminal of its own, whose other end is here. What it prints goes to the caller's terminal
 * as it is, as with any program there. */
#include "server/launch/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

enum { TYPED, PRINTED };

static int open_pair(struct terminal *ret, struct err *reterr)
{
    ret->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (ret->master < 0 || unlockpt(ret->master) < 0) {
        return err_errno(reterr, errno, "making a pseudo-terminal");
    }
    ret->slave = ioctl(ret->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return ret->slave < 0 ? err_errno(reterr, errno, "opening a pseudo-terminal") : 0;
}

int terminal_check(struct err *reterr)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)
               ? 0
               : err_set(reterr, ERR_INVALID, ENOTTY, NULL,
                         "standard input and output are no terminal; for a script: `immure run bash`");
}

int terminal_open(struct terminal *ret, struct err *reterr)
{
    struct terminal terminal = TERMINAL_NONE;
    if (tcgetattr(STDIN_FILENO, &terminal.before) < 0) {
        return err_errno(reterr, errno, "asking the terminal how it is set");
    }
    int r = open_pair(&terminal, reterr);
    if (r == 0 && tcsetattr(terminal.slave, TCSANOW, &terminal.before) < 0) {
        r = err_errno(reterr, errno, "setting up a pseudo-terminal");
    }
    if (r < 0) {
        fd_closep(&terminal.master);
        fd_closep(&terminal.slave);
        return r;
    }
    terminal_resize(&terminal);
    struct termios raw = terminal.before;
    cfmakeraw(&raw);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    *ret = terminal;
    return 0;
}

void terminal_given(struct terminal *terminal)
{
    fd_closep(&terminal->slave);
}

void terminal_watch(const struct terminal *terminal, struct pollfd ret[2])
{
    bool is_full = terminal->n_input > terminal->at_input;
    bool reads = terminal->master >= 0 && !is_full && !terminal->input_ended;
    ret[TYPED] = (struct pollfd){.fd = reads ? STDIN_FILENO : -1, .events = POLLIN};
    ret[PRINTED] =
        (struct pollfd){.fd = terminal->master, .events = (short)(POLLIN | (is_full ? POLLOUT : 0))};
}

/* False: nothing is there now. */
static bool show(const struct terminal *terminal)
{
    char text[8192];
    ssize_t n = read(terminal->master, text, sizeof text);
    return n > 0 && io_write_full(STDOUT_FILENO, text, (size_t)n) == 0;
}

static void hand_on(struct terminal *terminal)
{
    size_t left = terminal->n_input - terminal->at_input;
    ssize_t n = left > 0 ? write(terminal->master, terminal->input + terminal->at_input, left) : 0;
    terminal->at_input += n > 0 ? (size_t)n : 0;
}

void terminal_relay(struct terminal *terminal, const struct pollfd polled[2])
{
    if (polled[TYPED].revents) {
        ssize_t n = read(STDIN_FILENO, terminal->input, sizeof terminal->input);
        terminal->input_ended = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
        terminal->n_input = n > 0 ? (size_t)n : 0;
        terminal->at_input = 0;
    }
    if (terminal->master >= 0) {
        hand_on(terminal);
    }
    if (polled[PRINTED].revents && !show(terminal) && (polled[PRINTED].revents & POLLHUP)) {
        fd_closep(&terminal->master);
    }
}

void terminal_resize(const struct terminal *terminal)
{
    struct winsize size;
    if (terminal->master >= 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0) {
        ioctl(terminal->master, TIOCSWINSZ, &size);
    }
}

void terminal_close(struct terminal *terminal)
{
    if (terminal->master < 0 && terminal->slave < 0 && terminal->before.c_cflag == 0) {
        return;
    }
    while (terminal->master >= 0 && show(terminal)) {
    }
    tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal->before);
    fd_closep(&terminal->master);
    fd_closep(&terminal->slave);
    terminal->before.c_cflag = 0;
}
