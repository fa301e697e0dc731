/* Which directories of a host a policy mounts whole, and which it never does. Pure. Runs in the command line.
 */
#include "policy/learn/places.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "policy/mounts.h"

/* The same trees as in policy/lint, which has to be content with what is learned. */
static const struct {
    const char *path, *reason;
} secrets[] = {
    {"/root", "lies in a home"},
    {"/home", "lies in a home"},
    {"/run", "holds sockets of the host's services"},
    {"/var/run", "holds sockets of the host's services"},
    {"/boot", "shows the host's kernel"},
    {"/sys", "shows the host's devices and kernel"},
    {"/proc", "shows the host's processes"},
    {"/dev", "is a device of the host's"},
    {"/etc/passwd", "names the host's users"},
    {"/etc/group", "names the host's users"},
    {"/etc/shadow", "holds passwords"},
    {"/etc/gshadow", "holds passwords"},
    {"/etc/ssh", "holds keys"},
    {"/etc/ssl/private", "holds keys"},
    {"/etc/sudoers", "says who may become root"},
    {"/etc/sudoers.d", "says who may become root"},
    {"/etc/kubernetes", "holds keys"},
    {"/etc/immure", "holds keys"},
    {"/var/lib/containerd", "holds the files of containers"},
    {"/var/lib/containers", "holds the files of containers"},
    {"/var/lib/docker", "holds the files of containers"},
    {"/var/lib/kubelet", "holds secrets of containers"},
    {"/var/log", "holds the host's logs"},
    {"/var/spool", "holds what the host runs and sends"},
    {"/var/mail", "holds mail"},
};

/* Names that keys and passwords have, wherever they lie; a final '*': names that begin so. */
static const char *const secret_names[] = {
    ".ssh",         ".gnupg",           ".aws", ".azure",  ".kube",       ".docker",   ".netrc",
    ".pgpass",      ".git-credentials", ".env", "id_rsa*", "id_ed25519*", "id_ecdsa*", "id_dsa*",
    "credentials*", "secrets*",
};

/* Below these so many more parts of the path are a place of its own. The longest counts. */
static const struct {
    const char *path;
    unsigned parts;
} roots[] = {
    {"/usr", 1},
    {"/usr/bin", 0},
    {"/usr/sbin", 0},
    {"/usr/lib", 1},
    {"/usr/lib64", 0},
    {"/usr/lib32", 0},
    {"/usr/libexec", 1},
    {"/usr/share", 1},
    {"/usr/include", 0},
    {"/usr/games", 0},
    {"/usr/local", 1},
    {"/usr/local/bin", 0},
    {"/usr/local/lib", 1},
    {"/usr/local/share", 1},
    {"/usr/local/include", 0},
    {"/usr/src", 1},
    {"/lib", 1},
    {"/lib64", 0},
    {"/bin", 0},
    {"/sbin", 0},
    {"/opt", 1},
    {"/srv", 1},
    {"/etc", 1},
    {"/var/lib", 1},
    {"/var/cache", 1},
    {"/nix/store", 1},
};

/* Too wide to be shown, where no row above says more. */
static const char *const wide[] = {"/etc",     "/tmp",       "/dev", "/var",   "/var/tmp",
                                   "/var/lib", "/var/cache", "/mnt", "/media", "/nix"};

static bool is_secret_name(const char *name, size_t length)
{
    for (size_t i = 0; i < ARRAY_SIZE(secret_names); i++) {
        size_t wanted = strlen(secret_names[i]);
        bool begins = secret_names[i][wanted - 1] == '*';
        wanted -= begins;
        if ((begins ? length >= wanted : length == wanted) && strncmp(name, secret_names[i], wanted) == 0) {
            return true;
        }
    }
    return false;
}

/* A module of a program may be called "secrets". */
static bool is_code(const char *name, size_t length)
{
    static const char *const ends[] = {".py", ".pyc", ".js", ".mjs", ".cjs", ".ts", ".h", ".c", ".so"};
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        size_t end = strlen(ends[i]);
        if (length > end && strncmp(name + length - end, ends[i], end) == 0) {
            return true;
        }
    }
    return false;
}

bool place_is_packaged(const char *path)
{
    static const char *const rows[] = {"/usr", "/lib", "/lib64", "/bin", "/sbin", "/nix/store"};
    bool packaged = false;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        packaged |= path_is_at_or_below(path, rows[i]);
    }
    return packaged && !path_is_at_or_below(path, "/usr/local");
}

const char *place_secret(const char *path)
{
    for (size_t i = 0; i < ARRAY_SIZE(secrets); i++) {
        if (path_is_at_or_below(path, secrets[i].path)) {
            return secrets[i].reason;
        }
    }
    for (const char *name = path; *name == '/' && !place_is_packaged(path); name += strcspn(name, "/")) {
        name++;
        size_t length = strcspn(name, "/");
        if (is_secret_name(name, length) && !is_code(name, length)) {
            return "has a name that keys and passwords have";
        }
    }
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".sock") == 0 ? "is a socket of the host's" : NULL;
}

/* True if what lies below is more than may be shown. */
static bool is_too_wide(const char *path)
{
    if (strcmp(path, "/") == 0) {
        return true;
    }
    for (size_t i = 0; i < ARRAY_SIZE(secrets); i++) {
        if (path_is_at_or_below(secrets[i].path, path)) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
        if (roots[i].parts > 0 && path_is_at_or_below(roots[i].path, path)) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(wide); i++) {
        if (strcmp(path, wide[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* The length of `path` up to so many parts behind its first `length` bytes. */
static size_t extend(const char *path, size_t length, unsigned parts)
{
    for (; parts > 0 && path[length]; parts--) {
        length += 1 + strcspn(path + length + 1, "/");
    }
    return length;
}

bool place_of(const char *path, bool directory, char ret[PATH_MAX])
{
    size_t length = strlen(path), known = 0;
    for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
        size_t root = strlen(roots[i].path);
        if (root > known && path_is_at_or_below(path, roots[i].path)) {
            known = root;
            length = extend(path, root, roots[i].parts);
        }
    }
    for (;;) {
        snprintf(ret, PATH_MAX, "%.*s", (int)length, path);
        if (length > 0 && !is_too_wide(ret)) {
            return true;
        }
        if (path[length] == '\0') {
            return !directory;
        }
        length = extend(path, length, 1);
    }
}
