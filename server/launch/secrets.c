/* What nobody shows to a program that nobody has read by a slip on the command line: keys, passwords, and
 * sockets and files through which the host is governed. It is no boundary, since nobody knows all secrets of
 * a host; whoever means it says so in a policy file. Runs in the process of the command line. */
#include "server/launch/secrets.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "jail/base/cleanup.h"

struct secret {
    const char *path, *what;
};

/* Those of the host. */
static const struct secret of_host[] = {
    {"/etc/shadow", "holds passwords"},
    {"/etc/gshadow", "holds passwords"},
    {"/etc/ssh", "holds keys of the host's"},
    {"/etc/ssl/private", "holds keys of the host's"},
    {"/etc/sudoers", "says who may become root"},
    {"/etc/sudoers.d", "says who may become root"},
    {"/etc/kubernetes", "holds keys of the host's"},
    {"/etc/immure", "holds a server's keys"},
    {"/proc", "shows the host's processes"},
    {"/sys", "shows the host's devices and kernel"},
    {"/dev", "shows the host's devices"},
    {"/run", "holds sockets of the host's services"},
    {"/var/run", "holds sockets of the host's services"},
    {"/var/lib/docker", "holds the files of containers"},
    {"/var/lib/containerd", "holds the files of containers"},
    {"/var/lib/containers", "holds the files of containers"},
    {"/var/lib/kubelet", "holds the secrets of containers"},
    {"/var/log", "holds the host's logs"},
    {"/var/spool/cron", "says what the host runs"},
};

/* Those of anybody's home, wherever that is. */
static const struct secret of_homes[] = {
    {".ssh", "holds keys"},
    {".gnupg", "holds keys"},
    {".aws", "holds keys"},
    {".azure", "holds keys"},
    {".kube", "holds keys"},
    {".docker", "holds keys"},
    {".config/gcloud", "holds keys"},
    {".config/gh", "holds keys"},
    {".password-store", "holds passwords"},
    {".local/share/keyrings", "holds passwords"},
    {".mozilla", "holds passwords"},
    {".netrc", "holds passwords"},
    {".pgpass", "holds passwords"},
    {".git-credentials", "holds passwords"},
    {".bash_history", "holds what somebody typed"},
    {".zsh_history", "holds what somebody typed"},
};

static bool is_at_or_below(const char *path, const char *above)
{
    size_t length = strcmp(above, "/") == 0 ? 0 : strlen(above);
    return strncmp(path, above, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* True if the parts of `name` stand in `path`, one behind the other. */
static bool has_parts(const char *path, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strchr(path, '/'); at; at = strchr(at + 1, '/')) {
        if (strncmp(at + 1, name, length) == 0 && (at[1 + length] == '/' || at[1 + length] == '\0')) {
            return true;
        }
    }
    return false;
}

static const char *lies_in(char ret[SECRETS_TEXT_BYTES], const struct secret *secret)
{
    snprintf(ret, SECRETS_TEXT_BYTES, "it is or lies in %s, which %s", secret->path, secret->what);
    return ret;
}

static const char *holds(char ret[SECRETS_TEXT_BYTES], const char *path, const struct secret *secret)
{
    snprintf(ret, SECRETS_TEXT_BYTES, "it has %s in it, which %s", path, secret->what);
    return ret;
}

/* What lies in a home directory; `home` lies at or below `path`. */
static const char *home_shown(const char *home, char ret[SECRETS_TEXT_BYTES])
{
    for (size_t i = 0; i < ARRAY_SIZE(of_homes); i++) {
        char inside[PATH_MAX];
        int length = snprintf(inside, sizeof inside, "%s/%s", home, of_homes[i].path);
        if (length > 0 && (size_t)length < sizeof inside && exists(inside)) {
            return holds(ret, inside, &of_homes[i]);
        }
    }
    return NULL;
}

const char *secrets_shown_by(const char *path, const char *home, char ret[SECRETS_TEXT_BYTES])
{
    static const struct secret homes = {"/home", "holds everybody's files"};
    for (size_t i = 0; i < ARRAY_SIZE(of_host); i++) {
        if (is_at_or_below(path, of_host[i].path)) {
            return lies_in(ret, &of_host[i]);
        }
        if (is_at_or_below(of_host[i].path, path) && exists(of_host[i].path)) {
            return holds(ret, of_host[i].path, &of_host[i]);
        }
    }
    if (strcmp(path, homes.path) == 0) {
        return lies_in(ret, &homes);
    }
    for (size_t i = 0; i < ARRAY_SIZE(of_homes); i++) {
        if (has_parts(path, of_homes[i].path)) {
            return lies_in(ret, &of_homes[i]);
        }
    }
    struct stat st;
    if (stat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        snprintf(ret, SECRETS_TEXT_BYTES,
                 "it is a socket, and the program that listens there trusts its callers");
        return ret;
    }
    const char *shown = home_shown(path, ret);
    return shown || !home || !is_at_or_below(home, path) ? shown : home_shown(home, ret);
}
