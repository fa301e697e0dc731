/* Paths of fields for error messages. Runs wherever configuration is read; allocates nothing. */
#include "config/fieldpath.h"

#include <stdio.h>

size_t fieldpath_push(struct fieldpath *path, const char *name)
{
    size_t before = path->len;
    size_t room = sizeof path->text - before;
    int n = snprintf(path->text + before, room, "%s%s", before > 0 ? "." : "", name);
    if (n < 0 || (size_t)n >= room) {
        fieldpath_pop(path, before);
    } else {
        path->len += (size_t)n;
    }
    return before;
}

size_t fieldpath_push_index(struct fieldpath *path, size_t index)
{
    size_t before = path->len;
    size_t room = sizeof path->text - before;
    int n = snprintf(path->text + before, room, "[%zu]", index);
    if (n < 0 || (size_t)n >= room) {
        fieldpath_pop(path, before);
    } else {
        path->len += (size_t)n;
    }
    return before;
}

void fieldpath_pop(struct fieldpath *path, size_t len)
{
    path->len = len;
    path->text[len] = '\0';
}
