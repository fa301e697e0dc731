/* Lint of a policy that is a text: what it finds, but for what depends on the host, and on a program that was
 * not really watched. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "policy/lint/lint.h"

static inline bool is_of_the_host(const char *rule)
{
    return strcmp(rule, "bind-missing") == 0 || strcmp(rule, "loader-missing") == 0 ||
           strcmp(rule, "symlink-dangling") == 0;
}

/* How many findings; `ret` holds them, a line each. */
static inline size_t lint_text(const char *text, struct buf *ret)
{
    char path[] = "/tmp/immure-lint-XXXXXX.textproto";
    struct lint *lint = NULL;
    struct err err = {0};
    size_t n = 0;
    int fd = mkstemps(path, (int)strlen(".textproto"));
    if (fd < 0 || io_write_full(fd, text, strlen(text)) < 0 || lint_open(path, &lint, &err) < 0 ||
        lint_run(lint, false, &err) < 0) {
        abort();
    }
    close(fd);
    unlink(path);
    for (size_t i = 0; i < lint_count(lint); i++) {
        if (!is_of_the_host(lint_at(lint, i)->rule->id)) {
            lint_print_finding(lint_at(lint, i), ret);
            buf_putc(ret, '\n');
            n++;
        }
    }
    lint_free(lint);
    return n;
}
