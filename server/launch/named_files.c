/* Which arguments of a command are files of its caller's: `python3 script.py` is to find script.py. Runs in
 * the process of the command line. What holds secrets is never found by its name alone. */
#include "server/launch/named_files.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "jail/base/cleanup.h"
#include "server/launch/secrets.h"

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_secret(const char *path)
{
    char why[SECRETS_TEXT_BYTES];
    return secrets_shown_by(path, NULL, why) != NULL;
}

/* "./a//b" as "a/b"; false where that leads out of the directory. */
static bool shorten(const char *path, char *ret)
{
    size_t length = 0;
    for (const char *part = path; *part;) {
        size_t size = strcspn(part, "/");
        bool here = size == 0 || (size == 1 && part[0] == '.');
        if ((size == 2 && strncmp(part, "..", 2) == 0) || length + size + 2 > PATH_MAX) {
            return false;
        }
        if (!here) {
            if (length > 0) {
                ret[length++] = '/';
            }
            memcpy(ret + length, part, size);
            length += size;
        }
        part += size + (part[size] == '/');
    }
    ret[length] = '\0';
    return length > 0;
}

enum named_file named_file_find(const char *argument, bool is_program, char *ret)
{
    char real[PATH_MAX];
    if (argument[0] == '\0' || argument[0] == '-' || (is_program && !strchr(argument, '/')) ||
        !is_file(argument) || !realpath(argument, real) || is_secret(real)) {
        return NAMED_NONE;
    }
    if (argument[0] == '/' || is_program) {
        const char *at = argument[0] == '/' ? argument : real;
        if (strlen(at) >= PATH_MAX) {
            return NAMED_NONE;
        }
        memcpy(ret, at, strlen(at) + 1);
        return NAMED_SHOWN;
    }
    return shorten(argument, ret) ? NAMED_COPY : NAMED_NONE;
}
