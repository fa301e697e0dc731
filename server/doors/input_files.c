/* Input files of a job. Runs in the front, on names and contents that a caller chose. The warden opens these
 * names below a directory that no program has touched yet and would refuse the same ones; here they are
 * refused with the field's name, before a slot is taken. */
#include "server/doors/input_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/digest.h"
#include "config/format/json.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/kit/input.h"

#define FIELD_BYTES 64 /* "files[12345678].name" */

static int bad(struct err *reterr, const char *field, const char *why)
{
    return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: %s", field, why);
}

int input_path_check(const char *path, const char *field, struct err *reterr)
{
    if (strlen(path) >= PATH_MAX - 256) {
        return bad(reterr, field, "too long");
    }
    if (path[0] == '/') {
        return bad(reterr, field, "must not begin with '/'");
    }
    for (const char *part = path;;) {
        size_t len = strcspn(part, "/");
        if (len == 0) {
            return bad(reterr, field, *path ? "must not have an empty part" : "must not be empty");
        }
        if (len > NAME_MAX) {
            return bad(reterr, field, "a part has more than 255 bytes");
        }
        if (strncmp(part, "..", len) == 0) {
            return bad(reterr, field, "must not have a part '.' or '..'");
        }
        if (part[len] == '\0') {
            return 0;
        }
        part += len + 1;
    }
}

/* The members of one entry of `files`. */
struct file_members {
    const struct json *name, *content, *data, *mime, *url;
};

static int find_members(const struct json *entry, const char *prefix, struct file_members *ret,
                        struct err *reterr)
{
    char field[FIELD_BYTES + 256];
    if (json_type_of(entry) != JSON_OBJECT) {
        return bad(reterr, prefix, "must be an object");
    }
    for (const struct json *member = json_first(entry); member; member = json_next(member)) {
        const struct {
            const char *key;
            const struct json **slot;
        } known[] = {{"name", &ret->name},
                     {"content", &ret->content},
                     {"data", &ret->data},
                     {"mime", &ret->mime},
                     {"url", &ret->url}};
        size_t i = 0;
        while (i < ARRAY_SIZE(known) && strcmp(known[i].key, json_key(member)) != 0) {
            i++;
        }
        snprintf(field, sizeof field, "%s.%.255s", prefix, json_key(member));
        if (i == ARRAY_SIZE(known)) {
            return bad(reterr, field, "unknown field");
        }
        if (json_type_of(member) != JSON_STRING) {
            return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: must be a string, not %s", field,
                           json_type_to_string(json_type_of(member)));
        }
        *known[i].slot = member;
    }
    return 0;
}

/* Each directory on the way to a file is entered, and made where it is missing, by the warden. */
static int check_levels(const struct json *files, struct err *reterr)
{
    size_t levels = 0;
    for (const struct json *entry = json_first(files); entry; entry = json_next(entry)) {
        const char *name = json_string(json_get(entry, "name"));
        for (name = name ? strchr(name, '/') : NULL; name; name = strchr(name + 1, '/')) {
            levels++;
        }
    }
    if (levels > JOB_FILE_LEVELS_MAX) {
        return err_set(reterr, ERR_INVALID, E2BIG, "files",
                       "files: their names lead through %zu directories; all together may do so through %u",
                       levels, JOB_FILE_LEVELS_MAX);
    }
    return 0;
}

static int check_members(const struct file_members *members, const char *prefix, struct err *reterr)
{
    char field[FIELD_BYTES];
    snprintf(field, sizeof field, "%s.name", prefix);
    if (!members->name) {
        return bad(reterr, field, "is required");
    }
    int r = input_path_check(json_string(members->name), field, reterr);
    if (r < 0) {
        return r;
    }
    if (members->content && strchr(json_string(members->name), '/')) {
        return bad(reterr, field, "with `content` it must be a plain file name, without '/'");
    }
    if (members->content && members->data) {
        return bad(reterr, prefix, "must not have both `content` and `data`");
    }
    return 0;
}

static int append_content(const struct file_members *members, const char *prefix, struct input *input,
                          struct err *reterr)
{
    if (members->content) {
        return input_append(input, json_string(members->content), json_string_length(members->content),
                            reterr);
    }
    if (!members->data) {
        return 0;
    }
    CLEANUP(buf_free) struct buf decoded = BUF_INIT;
    int r = base64_decode(json_string(members->data), json_string_length(members->data), &decoded);
    if (r == -ENOMEM) {
        return err_errno(reterr, ENOMEM, "decoding a file");
    }
    if (r < 0) {
        char field[FIELD_BYTES];
        snprintf(field, sizeof field, "%s.data", prefix);
        return bad(reterr, field, "is not base64");
    }
    return input_append(input, decoded.data, decoded.len, reterr);
}

static int decode_file(const struct json *entry, const char *prefix, struct input *input,
                       struct job_file *ret, struct err *reterr)
{
    struct file_members members = {0};
    int r = find_members(entry, prefix, &members, reterr);
    if (r == 0) {
        r = check_members(&members, prefix, reterr);
    }
    uint64_t offset = input->size;
    if (r == 0) {
        r = append_content(&members, prefix, input, reterr);
    }
    if (r < 0) {
        return r;
    }
    char *path = strdup(json_string(members.name));
    if (!path) {
        return err_errno(reterr, ENOMEM, "reading files");
    }
    *ret = (struct job_file){.path = path, .offset = offset, .size = input->size - offset};
    return 0;
}

/* In the order of directories: '/' comes before every other byte, so that what lies below a path follows it
 * at once. */
static int compare_paths(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    while (*x && *x == *y) {
        x++;
        y++;
    }
    int left = *x == '/' ? 1 : *x ? 1 + (unsigned char)*x : 0;
    int right = *y == '/' ? 1 : *y ? 1 + (unsigned char)*y : 0;
    return left - right;
}

static bool lies_below(const char *path, const char *directory)
{
    size_t len = strlen(directory);
    return strncmp(path, directory, len) == 0 && path[len] == '/';
}

/* No name twice, and none that would have to be a file and a directory at once. */
static int check_distinct(const struct job *job, struct err *reterr)
{
    CLEANUP(freep) char **sorted = calloc(job->n_files + 1, sizeof sorted[0]);
    if (!sorted) {
        return err_errno(reterr, ENOMEM, "comparing file names");
    }
    for (size_t i = 0; i < job->n_files; i++) {
        sorted[i] = job->files[i].path;
    }
    qsort(sorted, job->n_files, sizeof sorted[0], compare_paths);
    for (size_t i = 0; i < job->n_files; i++) {
        if (i > 0 && strcmp(sorted[i - 1], sorted[i]) == 0) {
            return err_set(reterr, ERR_INVALID, EINVAL, "files", "files: '%.200s' is there twice", sorted[i]);
        }
        if (i > 0 && lies_below(sorted[i], sorted[i - 1])) {
            return err_set(reterr, ERR_INVALID, EINVAL, "files", "files: '%.200s' lies below another file",
                           sorted[i]);
        }
    }
    return 0;
}

int input_files_decode(const struct json *files, struct input *input, struct job *job, struct err *reterr)
{
    size_t n = json_count(files);
    if (n == 0) {
        return 0;
    }
    int r = check_levels(files, reterr);
    if (r < 0) {
        return r;
    }
    job->files = calloc(n, sizeof job->files[0]);
    if (!job->files) {
        return err_errno(reterr, ENOMEM, "reading files");
    }
    for (const struct json *entry = json_first(files); entry; entry = json_next(entry)) {
        char prefix[FIELD_BYTES - 16];
        snprintf(prefix, sizeof prefix, "files[%zu]", job->n_files);
        r = decode_file(entry, prefix, input, &job->files[job->n_files], reterr);
        if (r < 0) {
            return r;
        }
        job->n_files++;
    }
    return check_distinct(job, reterr);
}
