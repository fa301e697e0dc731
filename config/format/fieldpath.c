/* Paths of fields for error messages. Runs wherever configuration is read, once for every field and item, and
 * so without stdio: reading a policy is part of every `immure run`. Allocates nothing. */
#include "config/format/fieldpath.h"

#include <string.h>

/* A path that has no room for a part does without it. */
static void append(struct fieldpath *path, const char *text, size_t len)
{
    if (len < sizeof path->text - path->len) {
        memcpy(path->text + path->len, text, len);
        path->len += len;
        path->text[path->len] = '\0';
    }
}

size_t fieldpath_push(struct fieldpath *path, const char *name)
{
    size_t before = path->len;
    size_t len = strlen(name);
    if (before > 0 && len + 1 < sizeof path->text - before) {
        append(path, ".", 1);
    }
    append(path, name, len);
    return before;
}

size_t fieldpath_push_index(struct fieldpath *path, size_t index)
{
    size_t before = path->len;
    char text[24];
    char *p = text + sizeof text;
    *--p = ']';
    do {
        *--p = (char)('0' + index % 10);
        index /= 10;
    } while (index > 0);
    *--p = '[';
    append(path, p, (size_t)(text + sizeof text - p));
    return before;
}

void fieldpath_pop(struct fieldpath *path, size_t len)
{
    path->len = len;
    path->text[len] = '\0';
}
