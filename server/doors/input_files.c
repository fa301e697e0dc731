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
#include "server/doors/unknown_name.h"
#include "server/kit/input.h"

#define FIELD_BYTES 64 /* "files[12345678].name" */

static int bad(struct err *reterr, const char *field, const char *why)
{
    return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: %s", field, why);
}

static bool is_part(const char *part, size_t len, const char *word)
{
    return strlen(word) == len && strncmp(part, word, len) == 0;
}

/* NULL: it was the last one. */
static const char *next_part(const char *part)
{
    part += strcspn(part, "/");
    return *part ? part + 1 : NULL;
}

static bool has_part(const char *path, const char *word)
{
    for (const char *part = path; part; part = next_part(part)) {
        if (is_part(part, strcspn(part, "/"), word)) {
            return true;
        }
    }
    return false;
}

/* Of a path whose last part is a name. */
static void drop_empty_parts(char *path)
{
    char *to = path;
    for (const char *part = path, *next; part; part = next) {
        size_t len = strcspn(part, "/");
        next = next_part(part);
        if (len > 0 && !is_part(part, len, ".")) {
            memmove(to, part, len);
            to += len;
            *to++ = '/';
        }
    }
    to[-1] = '\0';
}

static bool names_directory(const char *path)
{
    const char *last = strrchr(path, '/');
    last = last ? last + 1 : path;
    return *last == '\0' || strcmp(last, ".") == 0;
}

int input_path_clean(char *path, const char *field, struct err *reterr)
{
    if (strlen(path) >= PATH_MAX - 256) {
        return bad(reterr, field, "too long");
    }
    if (path[0] == '/') {
        return bad(reterr, field, "must not begin with '/'");
    }
    if (has_part(path, "..")) {
        return bad(reterr, field, "must not have a part '..'");
    }
    if (names_directory(path)) {
        return bad(reterr, field, *path ? "must name a file, not a directory" : "must not be empty");
    }
    drop_empty_parts(path);
    for (const char *part = path; part; part = next_part(part)) {
        if (strcspn(part, "/") > NAME_MAX) {
            return bad(reterr, field, "a part has more than 255 bytes");
        }
    }
    return 0;
}

int input_pattern_clean(char *pattern, const char *field, struct err *reterr)
{
    if (pattern[0] == '/' || has_part(pattern, "..")) {
        return bad(reterr, field,
                   "output files are looked for in the workspace, the program's working directory "
                   "(/workspace, where the policy names no other); give a path relative to it");
    }
    if (names_directory(pattern)) {
        return bad(reterr, field, "names a directory; 'NAME/*' asks for the files in one");
    }
    drop_empty_parts(pattern);
    return 0;
}

/* The members of one entry of `files`. */
struct file_members {
    const struct json *name, *content, *data, *mime, *url;
};

static int find_members(const struct json *entry, const char *prefix, struct file_members *ret,
                        struct err *reterr)
{
    static const char *const names[] = {"name", "content", "data", "mime", "url"};
    const struct json *found[ARRAY_SIZE(names)];
    char field[FIELD_BYTES + 8];
    if (json_type_of(entry) != JSON_OBJECT) {
        return bad(reterr, prefix, "must be an object");
    }
    snprintf(field, sizeof field, "%s.", prefix);
    int r = known_members(entry, "field", field, names, ARRAY_SIZE(names), found, reterr);
    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (found[i] && json_type_of(found[i]) != JSON_STRING) {
            snprintf(field, sizeof field, "%s.%s", prefix, names[i]);
            return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: must be a string, not %s", field,
                           json_type_to_string(json_type_of(found[i])));
        }
    }
    *ret = (struct file_members){found[0], found[1], found[2], found[3], found[4]};
    return 0;
}

/* Each directory on the way to a file is entered, and made where it is missing, by the warden. */
static int check_levels(const struct job *job, struct err *reterr)
{
    size_t levels = 0;
    for (size_t i = 0; i < job->n_files; i++) {
        for (const char *at = strchr(job->files[i].path, '/'); at; at = strchr(at + 1, '/')) {
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

/* `*ret_path` is the file's name without what it does not need; the caller's to free, also on failure. */
static int check_members(const struct file_members *members, const char *prefix, char **ret_path,
                         struct err *reterr)
{
    char field[FIELD_BYTES];
    snprintf(field, sizeof field, "%s.name", prefix);
    if (!members->name) {
        return bad(reterr, field, "is required");
    }
    *ret_path = strdup(json_string(members->name));
    int r =
        *ret_path ? input_path_clean(*ret_path, field, reterr) : err_errno(reterr, ENOMEM, "reading files");
    if (r < 0) {
        return r;
    }
    if (members->content && strchr(*ret_path, '/')) {
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
    CLEANUP(freep) char *path = NULL;
    int r = find_members(entry, prefix, &members, reterr);
    if (r == 0) {
        r = check_members(&members, prefix, &path, reterr);
    }
    uint64_t offset = input->size;
    if (r == 0) {
        r = append_content(&members, prefix, input, reterr);
    }
    if (r < 0) {
        return r;
    }
    *ret = (struct job_file){.path = TAKE_PTR(path), .offset = offset, .size = input->size - offset};
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
    job->files = calloc(n, sizeof job->files[0]);
    if (!job->files) {
        return err_errno(reterr, ENOMEM, "reading files");
    }
    for (const struct json *entry = json_first(files); entry; entry = json_next(entry)) {
        char prefix[FIELD_BYTES - 16];
        snprintf(prefix, sizeof prefix, "files[%zu]", job->n_files);
        int r = decode_file(entry, prefix, input, &job->files[job->n_files], reterr);
        if (r < 0) {
            return r;
        }
        job->n_files++;
    }
    int r = check_levels(job, reterr);
    return r < 0 ? r : check_distinct(job, reterr);
}
