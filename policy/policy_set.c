/* All policies that a server knows, by name: the shipped ones, and those of the operator's files, which hide
 * shipped ones of the same name. Loaded whole or not at all. */
#include "policy/policy.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/format/protofile.h"
#include "config/format/textformat.h"
#include "config/shipped.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "policy/compiled.h"
#include "policy/embedded.h"
#include "policy/filter/names.h"

#define POLICIES_MAX 256u

struct policy_set {
    struct policy *policies[POLICIES_MAX];
    size_t n_policies;
    size_t n_shipped; /* they come first */
};

static void set_freep(struct policy_set **set)
{
    policy_set_free(*set);
}

void policy_set_free(struct policy_set *set)
{
    if (set) {
        for (size_t i = 0; i < set->n_policies; i++) {
            policy_free(set->policies[i]);
        }
        free(set);
    }
}

/* Later ones first: the operator's hide the shipped. */
const struct policy *policy_set_find(const struct policy_set *set, const char *name)
{
    for (size_t i = set->n_policies; i-- > 0;) {
        if (strcmp(policy_name(set->policies[i]), name) == 0) {
            return set->policies[i];
        }
    }
    return NULL;
}

size_t policy_set_count(const struct policy_set *set)
{
    return set->n_policies;
}

const struct policy *policy_set_at(const struct policy_set *set, size_t index)
{
    return set->policies[index];
}

struct policy *policy_set_edit(struct policy_set *set, size_t index)
{
    return set->policies[index];
}

static const struct embedded_policy *find_embedded(const char *name)
{
    for (const struct embedded_policy *row = policy_embedded; row->name; row++) {
        if (row->arch == policy_native_arch() && strcmp(row->name, name) == 0) {
            return row;
        }
    }
    return NULL;
}

static int compile_shipped(const struct shipped_file *file, struct policy **ret, struct err *reterr)
{
    const struct embedded_policy *row = find_embedded(file->name);
    if (row) {
        return policy_from_embedded(row, ret, reterr);
    }
    char origin[128];
    snprintf(origin, sizeof origin, "shipped:%s", file->name);
    struct policy_spec *spec = NULL;
    int r = policy_spec_decode_text(origin, file->data, file->size, &spec, reterr);
    return r < 0 ? r : policy_compile(spec, ret, reterr);
}

/* `parts`: a part is no error; there is no policy then. */
static int compile_file(const char *path, bool parts, struct policy **ret, struct err *reterr)
{
    struct policy_spec *spec = NULL;
    *ret = NULL;
    int r = policy_spec_load(path, &spec, reterr);
    if (r < 0 || !(spec->part && parts)) {
        return r < 0 ? r : policy_compile(spec, ret, reterr);
    }
    policy_spec_free(spec);
    return 0;
}

static int too_many(struct err *reterr)
{
    return err_set(reterr, ERR_CONFIG, E2BIG, "policy_path", "more than %u policies", POLICIES_MAX);
}

static int add_file(struct policy_set *set, const char *path, struct err *reterr)
{
    if (set->n_policies == POLICIES_MAX) {
        return too_many(reterr);
    }
    struct policy *policy = NULL;
    int r = compile_file(path, true, &policy, reterr);
    if (r < 0 || !policy) {
        return r;
    }
    for (size_t i = set->n_shipped; i < set->n_policies; i++) {
        if (strcmp(policy_name(set->policies[i]), policy_name(policy)) == 0) {
            r = err_set(reterr, ERR_CONFIG, EEXIST, path, "name %s: is the name of %s already",
                        policy_name(policy), policy_spec(set->policies[i])->origin);
            policy_free(policy);
            return r;
        }
    }
    set->policies[set->n_policies++] = policy;
    return 0;
}

static bool has_extension(const char *name)
{
    static const char *const extensions[] = {".textproto", ".json", ".binpb"};
    size_t len = strlen(name);
    for (size_t i = 0; i < ARRAY_SIZE(extensions); i++) {
        size_t ext = strlen(extensions[i]);
        if (name[0] != '.' && len > ext && strcmp(name + len - ext, extensions[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int is_policy_file(const struct dirent *entry)
{
    return has_extension(entry->d_name);
}

static int add_directory(struct policy_set *set, const char *path, struct err *reterr)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, is_policy_file, alphasort);
    if (n < 0) {
        char why[IO_PATH_ERROR_BYTES];
        return err_set(reterr, ERR_CONFIG, errno, path, "cannot read the directory: %s",
                       io_path_error(path, errno, why));
    }
    int r = 0;
    for (int i = 0; i < n; i++) {
        char file[4096];
        int len = snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (r == 0) {
            r = (size_t)len < sizeof file
                    ? add_file(set, file, reterr)
                    : err_set(reterr, ERR_CONFIG, ENAMETOOLONG, path, "path is too long");
        }
        free(entries[i]);
    }
    free(entries);
    return r;
}

int policy_set_load(char *const *paths, size_t n_paths, struct policy_set **ret, struct err *reterr)
{
    CLEANUP(set_freep) struct policy_set *set = calloc(1, sizeof *set);
    if (!set) {
        return err_errno(reterr, ENOMEM, "loading policies");
    }
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        if (!shipped_policy_is_for_servers(file)) {
            continue;
        }
        int r = set->n_policies < POLICIES_MAX
                    ? compile_shipped(file, &set->policies[set->n_policies], reterr)
                    : too_many(reterr);
        if (r < 0) {
            return r;
        }
        set->n_policies++;
    }
    set->n_shipped = set->n_policies;
    for (size_t i = 0; i < n_paths; i++) {
        struct stat st;
        if (stat(paths[i], &st) < 0) {
            char why[IO_PATH_ERROR_BYTES];
            return err_set(reterr, ERR_CONFIG, errno, paths[i], "cannot read it: %s",
                           io_path_error(paths[i], errno, why));
        }
        int r = S_ISDIR(st.st_mode) ? add_directory(set, paths[i], reterr) : add_file(set, paths[i], reterr);
        if (r < 0) {
            return r;
        }
    }
    *ret = TAKE_PTR(set);
    return 0;
}

/* A path with a '/', or a file of the current directory with the extension of a policy. */
static bool is_file(const char *name_or_path)
{
    return strchr(name_or_path, '/') || (has_extension(name_or_path) && access(name_or_path, F_OK) == 0);
}

static int no_such(const char *name, struct err *reterr)
{
    const char *names[POLICIES_MAX];
    size_t n_names = 0;
    for (const struct shipped_file *file = shipped_policies(); file->name && n_names < POLICIES_MAX; file++) {
        names[n_names++] = file->name;
    }
    const char *near = textformat_did_you_mean(name, names, n_names);
    return err_set(reterr, ERR_NOT_FOUND, ENOENT, name,
                   "no such policy; %s%s%sa file is named with a '/' or by its .textproto",
                   near ? "did you mean " : "", near ? near : "", near ? "? " : "");
}

int policy_resolve(const char *name_or_path, struct policy **ret, struct err *reterr)
{
    if (is_file(name_or_path)) {
        return compile_file(name_or_path, false, ret, reterr);
    }
    const struct shipped_file *file = shipped_policy(name_or_path);
    file = file ? file : shipped_part(name_or_path);
    return file ? compile_shipped(file, ret, reterr) : no_such(name_or_path, reterr);
}

int policy_show(const char *name_or_path, bool flat, struct buf *ret, struct err *reterr)
{
    const struct shipped_file *file = shipped_policy(name_or_path);
    file = file ? file : shipped_part(name_or_path);
    if (is_file(name_or_path)) {
        return flat ? policy_text_load(name_or_path, ret, reterr) : protofile_read(name_or_path, ret, reterr);
    }
    if (!file) {
        return no_such(name_or_path, reterr);
    }
    char origin[128];
    snprintf(origin, sizeof origin, "shipped:%s", file->name);
    if (flat) {
        return policy_text_decode(origin, file->data, file->size, ret, reterr);
    }
    return buf_append(ret, file->data, file->size) < 0 ? err_errno(reterr, ENOMEM, "while reading") : 0;
}
