/* The output files of a job. Runs once nothing of the program's is left, in the warden or, where that would
 * take it from other jobs, in a process of its own (server/run/collector.c); other jobs of its session may
 * still be changing what they share.
 *
 * Names in the workspace are the program's, so nothing here follows them: files are listed and opened beneath
 * the scratch's descriptor, through no link, and what cannot be opened that way is listed without content or
 * not at all. */
#include "server/run/outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/message/job.h"
#include "config/message/message.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/resources/scratch.h"
#include "server/run/glob.h"

/* All paths of one result together, so that the result always fits into a message. */
#define OUTPUT_PATHS_BYTES_MAX (MSG_BYTES_MAX / 2)
/* What a file costs in a message beside its path. */
#define OUTPUT_FILE_OVERHEAD_BYTES 32

struct budget {
    size_t files, attached, path_bytes;
    /* Sparse files and hard links claim more than the scratch can hold, at no cost, and the front would have
     * to write out all of it. */
    uint64_t content_bytes;
};

static int compare_files(const void *key, const void *element)
{
    const struct scratch_file *a = key, *b = element;
    return strcmp(a->path, b->path);
}

/* What install_package installs, by the hundred, is not what the program has come to write. It is returned
 * where it is asked for. */
static bool is_package(const char *path)
{
    static const char packages[] = ".packages/";
    return strncmp(path, packages, sizeof packages - 1) == 0;
}

/* An input counts as unchanged only if it is the same file, never written to since. */
static bool is_written(const struct scratch_file *file, const struct scratch_list *before)
{
    if (before->n_files == 0) {
        return true;
    }
    const struct scratch_file *old =
        bsearch(file, before->files, before->n_files, sizeof before->files[0], compare_files);
    return !old || old->inode != file->inode || old->size_bytes != file->size_bytes ||
           old->mtime.tv_sec != file->mtime.tv_sec || old->mtime.tv_nsec != file->mtime.tv_nsec ||
           old->ctime.tv_sec != file->ctime.tv_sec || old->ctime.tv_nsec != file->ctime.tv_nsec;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What was asked for, by name and by pattern. */
struct wanted {
    const struct job *job;
    const char **named; /* sorted */
    uint64_t steps;     /* that matching may still cost */
};

static int sort_named(struct wanted *wanted)
{
    const struct job *job = wanted->job;
    wanted->named = calloc(job->n_named + 1, sizeof wanted->named[0]);
    if (!wanted->named) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < job->n_named; i++) {
        wanted->named[i] = job->named[i];
    }
    qsort(wanted->named, job->n_named, sizeof wanted->named[0], compare_names);
    return 0;
}

static bool is_asked(struct wanted *wanted, const char *path)
{
    const struct job *job = wanted->job;
    if (bsearch(&path, wanted->named, job->n_named, sizeof wanted->named[0], compare_names)) {
        return true;
    }
    for (size_t i = 0; i < job->n_outputs; i++) {
        if (strcmp(job->outputs[i], path) == 0 || glob_match(job->outputs[i], path, &wanted->steps)) {
            return true;
        }
    }
    return false;
}

/* Which of the files are asked for; 1: that cannot be told at this price. The array is the caller's. */
static int find_asked(const struct job *job, const struct scratch_list *now, uint64_t steps, bool **ret)
{
    struct wanted wanted = {.job = job, .steps = steps};
    CLEANUP(freep) bool *asked = calloc(now->n_files, sizeof *asked);
    int r = asked ? sort_named(&wanted) : -ENOMEM;
    for (size_t i = 0; r == 0 && i < now->n_files; i++) {
        asked[i] = is_asked(&wanted, now->files[i].path);
    }
    free(wanted.named);
    if (r < 0) {
        return r;
    }
    *ret = TAKE_PTR(asked);
    return wanted.steps == 0;
}

/* Takes the file's share of what a result may hold; false where it is used up. */
static bool fits(struct budget *left, const char *path)
{
    size_t cost = strlen(path) + OUTPUT_FILE_OVERHEAD_BYTES;
    if (left->files == 0 || left->path_bytes < cost) {
        return false;
    }
    left->files--;
    left->path_bytes -= cost;
    return true;
}

static int add_file(int scratch_fd, const struct scratch_file *file, bool asked, bool written,
                    uint64_t file_bytes_max, struct budget *left, struct job_result *ret)
{
    struct job_output_file *to = &ret->files[ret->n_files];
    *to = (struct job_output_file){.size = file->size_bytes, .fd = -1, .asked = asked, .written = written};
    to->path = strdup(file->path);
    if (!to->path) {
        return -ENOMEM;
    }
    ret->n_files++;
    if (asked && file->size_bytes <= file_bytes_max) {
        if (left->attached == 0 || file->size_bytes > left->content_bytes) {
            ret->files_truncated = true;
            return 0;
        }
        int r = scratch_open_file(scratch_fd, file->path, &to->fd, &to->size);
        if (scratch_error_is_ours(r)) {
            return r;
        }
        if (r == 0) {
            left->attached--;
            left->content_bytes -= file->size_bytes;
        }
        /* What it has grown by since it was listed has been held against no limit. */
        to->size = to->size < file->size_bytes ? to->size : file->size_bytes;
    }
    return 0;
}

static int by_path(const void *a, const void *b)
{
    const struct job_output_file *left = a, *right = b;
    return strcmp(left->path, right->path);
}

/* One pass adds the files that were asked for, the other those that were not. */
static int add_files(int scratch_fd, const struct scratch_list *now, const bool *are_asked,
                     const struct scratch_list *before, const struct output_limits *limits, bool pass_asked,
                     struct budget *left, struct job_result *ret)
{
    for (size_t i = 0; i < now->n_files; i++) {
        const struct scratch_file *file = &now->files[i];
        bool asked = are_asked[i];
        bool written = !is_package(file->path) && is_written(file, before);
        if (asked != pass_asked || !(asked || written)) {
            continue;
        }
        if (!fits(left, file->path)) {
            ret->files_truncated = true;
            return 0;
        }
        int r = add_file(scratch_fd, file, asked, written, limits->file_bytes_max, left, ret);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int collect(int scratch_fd, const struct scratch_list *now, const bool *asked,
                   const struct scratch_list *before, const struct output_limits *limits,
                   struct job_result *ret)
{
    ret->files = calloc(now->n_files, sizeof ret->files[0]);
    if (!ret->files) {
        return -ENOMEM;
    }
    struct budget left = {limits->files_max, IO_FDS_MAX, OUTPUT_PATHS_BYTES_MAX, limits->all_bytes_max};
    int r = add_files(scratch_fd, now, asked, before, limits, true, &left, ret);
    if (r == 0) {
        r = add_files(scratch_fd, now, asked, before, limits, false, &left, ret);
    }
    qsort(ret->files, ret->n_files, sizeof ret->files[0], by_path);
    return r;
}

/* `quick`: 1 is returned where it would take more than that. */
static int list_and_collect(int scratch_fd, const struct job *job, const struct scratch_list *before,
                            const struct output_limits *limits, bool quick, struct job_result *ret,
                            struct err *reterr)
{
    enum { LISTED_MAX = 1 << 20 }; /* the scratch's inode limit is what really bounds the list */
    CLEANUP(scratch_list_free) struct scratch_list now = {0};
    CLEANUP(freep) bool *asked = NULL;
    size_t entries_max = quick                     ? OUTPUTS_QUICK_ENTRIES
                         : limits->entries_max > 0 ? limits->entries_max
                                                   : LISTED_MAX;
    int r = scratch_list(scratch_fd, LISTED_MAX, entries_max, &now, reterr);
    if (r < 0) {
        return r;
    }
    if (quick && now.truncated) {
        return 1;
    }
    if (now.n_files > 0) {
        r = find_asked(job, &now, quick ? OUTPUTS_QUICK_STEPS : OUTPUTS_STEPS_MAX, &asked);
    }
    if (quick && r == 1) {
        return 1;
    }
    ret->files_truncated = now.truncated || r == 1;
    if (r >= 0 && now.n_files > 0) {
        r = collect(scratch_fd, &now, asked, before, limits, ret);
    }
    return r < 0 ? err_errno(reterr, -r, "listing output files") : 0;
}

int outputs_collect(int scratch_fd, const struct job *job, const struct scratch_list *before,
                    const struct output_limits *limits, struct job_result *ret, struct err *reterr)
{
    return list_and_collect(scratch_fd, job, before, limits, false, ret, reterr);
}

int outputs_collect_quick(int scratch_fd, const struct job *job, const struct scratch_list *before,
                          const struct output_limits *limits, struct job_result *ret, struct err *reterr)
{
    return list_and_collect(scratch_fd, job, before, limits, true, ret, reterr);
}
