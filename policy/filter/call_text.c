/* Calls and the values of their arguments as text. Pure but for the names of calls, which
 * policy/filter/names.c knows. Runs in the warden and on the command line, never in a jail: what the jail's
 * PID 1 has recorded comes as numbers. */
#include "policy/filter/call_text.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "config/policy/constants.h"
#include "jail/base/buf.h"
#include "policy/filter/names.h"

#define CALL_ARGUMENTS 6u

uint64_t call_value(const struct named_argument *argument, uint64_t value)
{
    return argument->bits < 64 ? value & ((UINT64_C(1) << argument->bits) - 1) : value;
}

/* Small numbers read best as decimals, flags as hexadecimals. */
static void put_number(uint64_t number, struct buf *ret)
{
    buf_printf(ret, number < 1024 ? "%" PRIu64 : "0x%" PRIx64, number);
}

static void put_word(const char *word, bool *more, struct buf *ret)
{
    buf_printf(ret, "%s%s", *more ? "|" : "", word);
    *more = true;
}

/* Names of bits that are set, those of several bits first: S_IFBLK has the bits of S_IFDIR and S_IFCHR.
 * Returns what has no name. */
static uint64_t put_flags(const char *kind, uint64_t value, bool *more, struct buf *ret)
{
    for (int single = 0; single <= 1; single++) {
        const char *name;
        for (size_t i = 0; (name = constant_row(kind, i)); i++) {
            uint64_t bits;
            if (constant_find(kind, name, strlen(name), &bits) && bits != 0 && (value & bits) == bits &&
                ((bits & (bits - 1)) == 0) == single) {
                put_word(name, more, ret);
                value &= ~bits;
            }
        }
    }
    return value;
}

static void put_value(const struct named_argument *argument, uint64_t value, struct buf *ret)
{
    /* Of these, some bits are a number and the others flags. */
    static const struct {
        const char *kind;
        uint64_t number;
    } mixed[] = {{"type", SOCK_TYPE_MASK}, {"futex", (uint32_t)FUTEX_CMD_MASK}};
    const char *kind = argument->kind;
    value = call_value(argument, value);
    const char *name = constant_name(kind, value);
    if (name || value == UINT32_MAX) {
        name ? buf_puts(ret, name) : put_number(value, ret);
        return;
    }
    bool more = false, flags = constant_is_flag(kind);
    for (size_t i = 0; i < sizeof mixed / sizeof mixed[0]; i++) {
        name = strcmp(kind, mixed[i].kind) == 0 ? constant_name(kind, value & mixed[i].number) : NULL;
        if (name) {
            put_word(name, &more, ret);
            value &= ~mixed[i].number;
            flags = true;
        }
    }
    value = flags ? put_flags(kind, value, &more, ret) : value;
    if (value == 0 && more) {
        return;
    }
    buf_puts(ret, more ? "|" : "");
    if (strcmp(kind, "mode") == 0) {
        buf_printf(ret, "0%" PRIo64, value);
    } else {
        put_number(value, ret);
    }
}

/* The signal at a child's end is among the flags that make it. */
static void put_clone(const struct named_argument *flags, uint64_t value, struct buf *ret)
{
    if ((value & 0xff) != SIGCHLD) {
        put_value(flags, value, ret);
        return;
    }
    if ((uint32_t)value != SIGCHLD) {
        put_value(flags, value & ~UINT64_C(0xff), ret);
        buf_putc(ret, '|');
    }
    buf_puts(ret, "SIGCHLD");
}

/* Protocols of other families and options of other levels have numbers of their own. */
static bool has_other_names(const struct named_argument *argument, const uint64_t arguments[CALL_ARGUMENTS])
{
    uint32_t family = (uint32_t)arguments[0], level = (uint32_t)arguments[1];
    return (strcmp(argument->kind, "protocol") == 0 && family != AF_INET && family != AF_INET6) ||
           (strcmp(argument->kind, "sockopt") == 0 && level != SOL_SOCKET);
}

void call_argument_text(const struct named_argument *argument, const uint64_t arguments[CALL_ARGUMENTS],
                        struct buf *ret)
{
    uint64_t value = arguments[argument->number];
    if (argument->kind && strcmp(argument->call, "clone") == 0) {
        put_clone(argument, value, ret);
    } else if (!argument->kind || has_other_names(argument, arguments)) {
        put_number(call_value(argument, value), ret);
    } else {
        put_value(argument, value, ret);
    }
}

void call_text(uint32_t arch, int nr, const uint64_t arguments[CALL_ARGUMENTS], struct buf *ret)
{
    char name[64];
    const struct named_argument *told[CALL_ARGUMENTS];
    size_t n = 0;
    buf_puts(ret, policy_syscall_name(arch, nr, name, sizeof name));
    for (uint32_t i = 0; arch == policy_native_arch() && i < CALL_ARGUMENTS; i++) {
        const struct named_argument *argument = argument_at(name, i);
        if (argument && argument->kind) {
            told[n++] = argument;
        }
    }
    while (n > 1 && call_value(told[n - 1], arguments[told[n - 1]->number]) == 0) {
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        buf_puts(ret, i == 0 ? "(" : ", ");
        call_argument_text(told[i], arguments, ret);
    }
    buf_puts(ret, n > 0 ? ")" : "");
}
