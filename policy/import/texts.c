/* What the readers share: their errors, the files that they include, numbers and constants. Runs in the
 * command line. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/policy/constants.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "policy/import/draft.h"
#include "policy/import/formats.h"
#include "policy/import/import.h"

int import_fail(const char *file, unsigned line, struct err *reterr, const char *fmt, ...)
{
    char item[256], text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(item, sizeof item, "%.230s:%u", file, line);
    return err_set(reterr, ERR_CONFIG, 0, item, "%s", text);
}

int import_include(struct draft *draft, const struct import_text *from, unsigned line, const char *name,
                   struct import_text *ret, struct err *reterr)
{
    if (draft->request->alone) {
        return import_fail(from->file, line, reterr, "includes %.100s, and no other file is read here", name);
    }
    const char *slash = strrchr(from->file, '/');
    int above = name[0] == '/' || !slash ? 0 : (int)(slash + 1 - from->file);
    const char *path = draft_printf(draft, "%.*s%s", above, from->file, name);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int r = io_read_file_at(AT_FDCWD, path, IMPORT_BYTES_MAX, &text);
    if (r < 0) {
        return import_fail(from->file, line, reterr, "cannot read %.200s: %s", path, strerror(-r));
    }
    *ret = (struct import_text){.file = path,
                                .text = draft_text(draft, text.data ? text.data : "", text.len),
                                .size = text.len,
                                .line = 1};
    return 0;
}

bool import_host_has(const struct draft *draft, const char *path)
{
    return draft->request->alone || access(path, F_OK) == 0;
}

bool import_number(const char *text, size_t length, uint64_t *ret)
{
    char copy[72], *end;
    bool minus = length > 0 && text[0] == '-';
    if (length == 0 || length >= sizeof copy || text[minus] < '0' || text[minus] > '9') {
        return false;
    }
    memcpy(copy, text + minus, length - minus);
    copy[length - minus] = '\0';
    bool binary = copy[0] == '0' && (copy[1] == 'b' || copy[1] == 'B');
    errno = 0;
    uint64_t value = strtoull(binary ? copy + 2 : copy, &end, binary ? 2 : 0);
    *ret = minus ? -value : value;
    return *end == '\0' && errno == 0 && end != copy;
}

bool import_constant(const char *name, size_t length, uint64_t *ret)
{
    return constant_find(NULL, name, length, ret);
}
