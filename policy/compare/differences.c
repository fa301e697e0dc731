/* The rows of a comparison. Pure; runs on the command line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "policy/compare/compare_internal.h"

static void difference_clear(struct policy_difference *row)
{
    free(row->name);
    free(row->arguments);
    free(row->a);
    free(row->b);
}

void policy_differences_clear(struct policy_differences *differences)
{
    for (size_t i = 0; i < differences->n; i++) {
        difference_clear(&differences->rows[i]);
    }
    free(differences->rows);
    *differences = (struct policy_differences){0};
}

static int copy(const char *text, char **ret)
{
    *ret = text ? strdup(text) : NULL;
    return text && !*ret ? -ENOMEM : 0;
}

int differences_add(struct policy_differences *differences, const struct policy_difference *row)
{
    struct policy_difference *rows =
        reallocarray(differences->rows, differences->n + 1, sizeof differences->rows[0]);
    if (!rows) {
        return -ENOMEM;
    }
    differences->rows = rows;
    struct policy_difference *to = &rows[differences->n++];
    *to = *row;
    to->name = to->arguments = to->a = to->b = NULL;
    bool failed = copy(row->name, &to->name) < 0 || copy(row->arguments, &to->arguments) < 0 ||
                  copy(row->a, &to->a) < 0 || copy(row->b, &to->b) < 0;
    return failed ? -ENOMEM : 0;
}

static bool is_control(char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}

void policy_put_text(const char *text, const char *but, struct buf *ret)
{
    bool plain = *text != '\0' && text[strcspn(text, but)] == '\0';
    for (const char *at = text; plain && *at; at++) {
        plain = !is_control(*at);
    }
    if (plain) {
        buf_puts(ret, text);
        return;
    }
    buf_putc(ret, '"');
    for (const char *at = text; *at; at++) {
        if (*at == '\n') {
            buf_puts(ret, "\\n");
        } else if (is_control(*at)) {
            buf_printf(ret, "\\x%02x", (unsigned)*at);
        } else {
            buf_puts(ret, *at == '"' || *at == '\\' ? "\\" : "");
            buf_putc(ret, *at);
        }
    }
    buf_putc(ret, '"');
}
