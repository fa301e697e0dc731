/* Finds the front and the templates. Runs in the warden and in the command line. */
#include "server/host/programs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"

static bool is_executable(const char *path)
{
    return access(path, X_OK) == 0;
}

int program_find(const char *name, char ret[PATH_MAX], struct err *reterr)
{
    if (name[0] == '/') {
        snprintf(ret, PATH_MAX, "%s", name);
        return is_executable(ret) ? 0
                                  : err_set(reterr, ERR_HOST, errno, NULL, "%s: %s", name, strerror(errno));
    }
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    own[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash) {
        *slash = '\0';
        static const char *const places[] = {"", "/../libexec/immure"};
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
            int length = snprintf(ret, PATH_MAX, "%s%s/%s", own, places[i], name);
            if (length > 0 && length < PATH_MAX && is_executable(ret)) {
                return 0;
            }
        }
    }
    return err_set(reterr, ERR_HOST, ENOENT, NULL, "%s is neither beside immure nor in ../libexec/immure",
                   name);
}
