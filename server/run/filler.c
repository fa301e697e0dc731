/* The filler. Both sides: the warden's, which asks and goes on, and the process's, which writes what one job
 * brings and tells what its workspace looks like then. What is soon done the warden does itself, and so does
 * `immure run`.
 *
 * A request chooses how many files and directories there are, and how large they and its code. What that
 * costs, no other job's deadline may wait for. A session's workspace is other jobs' as well, and they may
 * run: names are followed as jail/resources/scratch.c does, through no link. */
#include "server/run/filler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/helper.h"
#include "jail/base/io.h"
#include "jail/plan/plan.h"
#include "jail/standby.h"

#define PRIORITY 5
/* What the warden does itself: about a millisecond of each. */
#define QUICK_STEPS   64u
#define QUICK_ENTRIES 512u
#define QUICK_BYTES   (UINT64_C(512) << 10)
#define PACKED_MAX    (UINT64_C(64) << 20)

struct filler {
    struct helper helper;
};

void filled_clear(struct filled *filled)
{
    scratch_list_free(&filled->before);
    fd_closep(&filled->before_fd);
    fd_closep(&filled->program_fd);
}

/* ---- The work ---- */

bool filling_takes_long(const struct filling *filling)
{
    const struct job *job = filling->job;
    uint64_t bytes = filling->standby || filling->script ? job->code_size : 0;
    size_t steps = job->n_files;
    for (size_t i = 0; i < job->n_files && steps <= QUICK_STEPS; i++) {
        bytes += job->files[i].size;
        for (const char *at = strchr(job->files[i].path, '/'); at; at = strchr(at + 1, '/')) {
            steps++;
        }
    }
    return steps > QUICK_STEPS || bytes > QUICK_BYTES ||
           (filling->shared && filling->entries > QUICK_ENTRIES);
}

/* 1, where `wait` is false: there is more to look at than was thought. */
static int fill_workspace(const struct filling *filling, bool wait, struct scratch_list *ret,
                          struct err *reterr)
{
    const struct job *job = filling->job;
    for (size_t i = 0; i < job->n_files; i++) {
        const struct job_file *file = &job->files[i];
        if (filling->shared) {
            scratch_remove(filling->work_fd, file->path);
        }
        int r = scratch_put(filling->work_fd, file->path, filling->input_fd, file->offset, file->size,
                            filling->file_uid, filling->file_gid, reterr);
        if (r < 0) {
            return r;
        }
    }
    if (job->n_files == 0 && !filling->shared) {
        return 0;
    }
    /* What it looks like now tells later which files the program changed. */
    size_t entries_max = filling->shared ? filling->entries_max : job->n_files * (SCRATCH_DEPTH_MAX + 1);
    if (filling->shared && !wait && entries_max > 2 * QUICK_ENTRIES) {
        entries_max = 2 * QUICK_ENTRIES;
        int r = scratch_list(filling->work_fd, entries_max, entries_max, ret, reterr);
        if (r < 0 || !ret->truncated) {
            return r;
        }
        scratch_list_free(ret);
        return 1;
    }
    return scratch_list(filling->work_fd, entries_max, entries_max, ret, reterr);
}

/* The script as the full plan has it, put where a run plan shows it. */
static int fill_script(const struct filling *filling, struct err *reterr)
{
    for (uint32_t i = 0; i < filling->plan->n_steps; i++) {
        const struct jail_step *step = &filling->plan->steps[i];
        if (step->kind != JAIL_STEP_FILE || !step->file.from_input) {
            continue;
        }
        const char *path = jail_plan_string(filling->plan, step->file.path);
        return scratch_put_script(filling->scratch_fd, strrchr(path, '/') + 1, filling->input_fd,
                                  step->file.size_bytes, filling->outer_uid, filling->outer_gid, reterr);
    }
    return 0;
}

int filling_do(const struct filling *filling, bool wait, struct filled *ret, struct err *reterr)
{
    CLEANUP(fd_closep) int lock = filling->shared ? scratch_lock(filling->work_fd, wait) : -1;
    if (filling->shared && lock < 0) {
        return lock == -EWOULDBLOCK ? 1 : err_errno(reterr, -lock, "locking a workspace");
    }
    int r = fill_workspace(filling, wait, &ret->before, reterr);
    if (r == 0 && filling->standby) {
        int input_fd = filling->script ? -1 : filling->input_fd;
        r = jail_standby_program(filling->standby, filling->plan, input_fd, &ret->program_fd, reterr);
    }
    if (r == 0 && filling->script) {
        r = fill_script(filling, reterr);
    }
    return r;
}

/* ---- The list, packed ---- */

/* Before each path, which ends with NUL. */
struct packed_file {
    uint64_t size_bytes, inode;
    struct timespec mtime, ctime;
};

static int pack(const struct scratch_list *list, int *ret_fd)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    for (size_t i = 0; i < list->n_files; i++) {
        const struct scratch_file *file = &list->files[i];
        struct packed_file row;
        memset(&row, 0, sizeof row);
        row.size_bytes = file->size_bytes;
        row.inode = file->inode;
        row.mtime = file->mtime;
        row.ctime = file->ctime;
        if (packed.len + sizeof row + strlen(file->path) + 1 > PACKED_MAX) {
            break; /* the rest counts as written by the program */
        }
        buf_append(&packed, &row, sizeof row);
        buf_append(&packed, file->path, strlen(file->path) + 1);
    }
    return packed.failed || packed.len > PACKED_MAX
               ? -ENOMEM
               : io_memfd("before", packed.data ? packed.data : "", packed.len, ret_fd);
}

static int unpack_one(const char *data, size_t size, struct scratch_file *ret, size_t *ret_used)
{
    struct packed_file row;
    if (size < sizeof row) {
        return -EPROTO;
    }
    memcpy(&row, data, sizeof row);
    const char *end = memchr(data + sizeof row, '\0', size - sizeof row);
    char *path = end ? strdup(data + sizeof row) : NULL;
    if (!path) {
        return end ? -ENOMEM : -EPROTO;
    }
    *ret = (struct scratch_file){.path = path,
                                 .size_bytes = row.size_bytes,
                                 .mtime = row.mtime,
                                 .ctime = row.ctime,
                                 .inode = row.inode};
    *ret_used = (size_t)(end - data) + 1;
    return 0;
}

int filler_unpack(int before_fd, struct scratch_list *ret)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    struct scratch_list list = {0};
    int r = lseek(before_fd, 0, SEEK_SET) < 0 ? -errno : io_read_fd(before_fd, PACKED_MAX, &packed);
    if (r < 0) {
        return r;
    }
    list.files = calloc(packed.len / sizeof(struct packed_file) + 1, sizeof *list.files);
    if (!list.files) {
        return -ENOMEM;
    }
    for (size_t at = 0, used; at < packed.len; at += used) {
        r = unpack_one(packed.data + at, packed.len - at, &list.files[list.n_files], &used);
        if (r < 0) {
            scratch_list_free(&list);
            return r;
        }
        list.n_files++;
    }
    *ret = list;
    return 0;
}

/* ---- The process ---- */

struct filler_answer {
    struct err err;
    bool has_program;
};

static void filler_main(int sock, void *arg)
{
    struct filling filling = *(const struct filling *)arg;
    struct filled filled = FILLED_NOTHING;
    struct filler_answer answer;
    int given[3] = {-1, -1, -1};
    size_t n_given = ARRAY_SIZE(given);
    char byte;
    memset(&answer, 0, sizeof answer);
    setpriority(PRIO_PROCESS, 0, PRIORITY);
    if (io_recv_fds(sock, &byte, sizeof byte, given, &n_given) != (ssize_t)sizeof byte ||
        n_given != ARRAY_SIZE(given)) {
        return;
    }
    filling.work_fd = given[0];
    filling.scratch_fd = given[1];
    filling.input_fd = given[2];
    int r = filling_do(&filling, true, &filled, &answer.err);
    if (r == 0 && (r = pack(&filled.before, &filled.before_fd)) < 0) {
        err_errno(&answer.err, -r, "telling of input files");
    }
    const int found[] = {filled.before_fd, filled.program_fd};
    answer.has_program = filled.program_fd >= 0;
    io_send_fds(sock, &answer, sizeof answer, found, r < 0 ? 0 : answer.has_program ? 2 : 1);
}

/* ---- The warden ---- */

int filler_start(const struct filling *filling, struct filler **ret, struct err *reterr)
{
    struct filling task = *filling;
    struct filler *filler = calloc(1, sizeof *filler);
    int r = filler ? helper_start("immure-fill", filler_main, &task, &filler->helper) : -ENOMEM;
    if (r < 0) {
        free(filler);
        return err_errno(reterr, -r, "starting a process that writes input files");
    }
    const int fds[] = {filling->work_fd, filling->scratch_fd, filling->input_fd};
    r = io_send_fds(filler->helper.sock, "", 1, fds, ARRAY_SIZE(fds));
    if (r < 0) {
        filler_free(filler);
        return err_errno(reterr, -r, "asking for input files");
    }
    *ret = filler;
    return 0;
}

int filler_fd(const struct filler *filler)
{
    return filler->helper.sock;
}

int filler_end(struct filler *filler, struct filled *ret, struct err *reterr)
{
    struct filler_answer answer;
    int fds[] = {-1, -1};
    size_t n_fds = ARRAY_SIZE(fds);
    bool bare = false;
    ssize_t n = io_recv_fds_or_bare(filler->helper.sock, &answer, sizeof answer, fds, &n_fds, &bare);
    if (n != (ssize_t)sizeof answer || bare) {
        for (size_t i = 0; i < n_fds; i++) {
            fd_closep(&fds[i]);
        }
        return err_errno(reterr, bare ? EMFILE : n < 0 ? (int)-n : EPIPE, "writing input files");
    }
    if (answer.err.kind != ERR_NONE) {
        *reterr = answer.err;
        return answer.err.code > 0 ? -answer.err.code : -EINVAL;
    }
    ret->before_fd = fds[0];
    ret->program_fd = fds[1];
    return 0;
}

void filler_free(struct filler *filler)
{
    if (filler) {
        helper_stop(&filler->helper);
        free(filler);
    }
}
