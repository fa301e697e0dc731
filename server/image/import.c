/* `immure image import`: from what the operator names to an image with a name.
 *
 * A root directory is copied. Everything else is copied as it is into the staging directory, and unpacked
 * there, in a jail, by skopeo (which makes an OCI layout of it) and umoci (which makes files of the layout).
 * Both times the files are settled before they get a name. */
#include "server/image/import.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/message/job.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/resources/tree.h"
#include "server/image/manifest.h"
#include "server/image/store.h"
#include "server/image/unpack.h"

#define INPUT     "in"
#define LAYOUT    "layout"
#define IMAGE_TAG "image"
#define SKOPEO    "/usr/bin/skopeo"
#define UMOCI     "/usr/bin/umoci"

enum form { FORM_DIRECTORY, FORM_LAYOUT, FORM_ARCHIVE };

struct importing {
    const struct image_import *import;
    enum form form;
    int source;
    struct unpacker *unpacker; /* NULL: nothing has to be unpacked */
    int store, staging;
    struct image_record record;
    struct image_counts counts;
};

static int open_source(struct importing *importing, struct err *reterr)
{
    const char *path = importing->import->source;
    struct stat st;
    importing->source = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (importing->source < 0 || fstat(importing->source, &st) < 0) {
        return err_set(reterr, ERR_INVALID, errno, path, "%s", strerror(errno));
    }
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        return err_set(reterr, ERR_INVALID, EINVAL, path, "is neither a file nor a directory");
    }
    bool layout = S_ISDIR(st.st_mode) && faccessat(importing->source, "oci-layout", F_OK, 0) == 0;
    importing->form = S_ISREG(st.st_mode) ? FORM_ARCHIVE : layout ? FORM_LAYOUT : FORM_DIRECTORY;
    return 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* A directory that the store lies in would be copied into itself, until a limit ends that. On another mount
 * it would not: no other is entered. */
static int check_apart(const struct importing *importing, struct err *reterr)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_XDEV};
    struct stat source, here, below = {0};
    int at = openat(importing->store, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool known = fstat(importing->source, &source) == 0, found = false;
    while (known && !found && at >= 0 && fstat(at, &here) == 0 && !is_same(&here, &below)) {
        found = is_same(&here, &source);
        below = here;
        int above = (int)syscall(SYS_openat2, at, "..", &how, sizeof how);
        close(at);
        at = above;
    }
    fd_closep(&at);
    return found ? err_set(reterr, ERR_INVALID, ELOOP, importing->import->source,
                           "the directory of images lies in it; import a copy without that")
                 : 0;
}

/* Both or neither: each is of no use alone. */
static int check_programs(struct err *reterr)
{
    if (access(SKOPEO, X_OK) < 0 || access(UMOCI, X_OK) < 0) {
        return err_set(reterr, ERR_HOST, ENOENT, NULL,
                       "%s is missing: install Debian's packages skopeo and umoci, which unpack images",
                       access(SKOPEO, X_OK) < 0 ? SKOPEO : UMOCI);
    }
    return 0;
}

/* ---- Unpacking ---- */

static int copy_input(const struct importing *importing, struct err *reterr)
{
    const struct image_limits *limits = &importing->import->limits;
    struct image_counts counts = {0};
    CLEANUP(fd_closep) int work = image_open_below(importing->staging, UNPACK_WORK, O_RDONLY | O_DIRECTORY);
    if (importing->form == FORM_ARCHIVE) {
        return image_tree_copy_file(importing->source, work, INPUT, limits, &counts, reterr);
    }
    CLEANUP(fd_closep) int to = -1;
    if (mkdirat(work, INPUT, 0755) < 0 || fchmodat(work, INPUT, 0755, 0) < 0 ||
        (to = image_open_below(work, INPUT, O_RDONLY | O_DIRECTORY)) < 0) {
        return err_errno(reterr, errno, "copying the layout");
    }
    return image_tree_copy(importing->source, to, limits, &counts, reterr);
}

/* One of skopeo's ways to read the input. What it writes meanwhile is the input over again, uncompressed, and
 * what it makes of it, beside the input. */
static int make_layout(const struct importing *importing, const char *transport, struct err *reterr)
{
    struct image_limits limits = importing->import->limits;
    char from[64];
    limits.bytes = limits.bytes > UINT64_MAX / 3 ? UINT64_MAX : 3 * limits.bytes;
    snprintf(from, sizeof from, "%s:" INPUT, transport);
    char *argv[] = {(char[]){SKOPEO},
                    (char[]){"--insecure-policy"},
                    (char[]){"--tmpdir"},
                    (char[]){"tmp"},
                    (char[]){"copy"},
                    (char[]){"--quiet"},
                    from,
                    (char[]){"oci:" LAYOUT ":" IMAGE_TAG}};
    return unpacker_run(importing->unpacker, argv, ARRAY_SIZE(argv), ".", &limits, reterr);
}

/* The two kinds of archives are told apart by trying: `docker save` makes files that are both. */
static int make_layout_of_archive(struct importing *importing, struct err *reterr)
{
    static const char *const transports[] = {"docker-archive", "oci-archive"};
    struct err errs[ARRAY_SIZE(transports)] = {0};
    for (size_t i = 0; i < ARRAY_SIZE(transports); i++) {
        int r = make_layout(importing, transports[i], &errs[i]);
        if (r == 0) {
            importing->record.form = strdup(transports[i]);
            return importing->record.form ? 0 : err_errno(reterr, ENOMEM, "importing an image");
        }
        if (errs[i].kind != ERR_INVALID) {
            *reterr = errs[i];
            return r;
        }
    }
    return err_set(reterr, ERR_INVALID, EBADMSG, importing->import->source,
                   "is neither a docker-save archive (%.180s) nor an OCI archive (%.180s)", errs[0].text,
                   errs[1].text);
}

static int unpack_layout(struct importing *importing, struct err *reterr)
{
    char *argv[] = {(char[]){UMOCI},        (char[]){"raw"},     (char[]){"unpack"},
                    (char[]){"--rootless"}, (char[]){"--image"}, (char[]){LAYOUT ":" IMAGE_TAG},
                    (char[]){IMAGE_ROOT}};
    return unpacker_run(importing->unpacker, argv, ARRAY_SIZE(argv), IMAGE_ROOT, &importing->import->limits,
                        reterr);
}

static int take_unpacked(const struct importing *importing, struct err *reterr)
{
    CLEANUP(fd_closep) int work = image_open_below(importing->staging, UNPACK_WORK, O_RDONLY | O_DIRECTORY);
    /* It may be anything: what opens it afterwards takes a directory and nothing else. */
    return renameat2(work, IMAGE_ROOT, importing->staging, IMAGE_ROOT, RENAME_NOREPLACE) < 0
               ? err_errno(reterr, errno, "taking what was unpacked")
               : 0;
}

static int read_layout(struct importing *importing, struct err *reterr)
{
    CLEANUP(fd_closep)
    int layout = image_open_below(importing->staging, UNPACK_WORK "/" LAYOUT, O_RDONLY | O_DIRECTORY);
    return layout < 0 ? err_errno(reterr, -layout, "opening the layout")
                      : image_manifest_read(layout, &importing->record, reterr);
}

static int unpack(struct importing *importing, struct err *reterr)
{
    int r = unpacker_prepare(importing->unpacker, importing->staging, reterr);
    r = r < 0 ? r : copy_input(importing, reterr);
    if (r == 0 && importing->form == FORM_LAYOUT) {
        r = make_layout(importing, "oci", reterr);
        importing->record.form = strdup("oci-layout");
    } else if (r == 0) {
        r = make_layout_of_archive(importing, reterr);
    }
    r = r < 0 ? r : read_layout(importing, reterr);
    r = r < 0 ? r : unpack_layout(importing, reterr);
    return r < 0 ? r : take_unpacked(importing, reterr);
}

/* ---- All of it ---- */

static int copy_directory(struct importing *importing, struct err *reterr)
{
    CLEANUP(fd_closep) int to = -1;
    if (mkdirat(importing->staging, IMAGE_ROOT, 0755) < 0 ||
        (to = image_open_below(importing->staging, IMAGE_ROOT, O_RDONLY | O_DIRECTORY)) < 0) {
        return err_errno(reterr, errno, "copying the directory");
    }
    importing->record.form = strdup("directory");
    importing->record.digest = strdup("");
    return image_tree_copy(importing->source, to, &importing->import->limits, &importing->counts, reterr);
}

static int settle(struct importing *importing, struct err *reterr)
{
    struct image_counts counts;
    CLEANUP(fd_closep) int root = image_open_below(importing->staging, IMAGE_ROOT, O_RDONLY | O_DIRECTORY);
    if (root < 0) {
        return err_set(reterr, ERR_INVALID, -root, NULL, "it has no root directory: %s", strerror(-root));
    }
    int r = image_tree_settle(root, geteuid(), getegid(), &importing->import->limits, &counts, reterr);
    if (r == 0 && counts.files == 0) {
        return err_set(reterr, ERR_INVALID, ENOENT, NULL, "it is empty");
    }
    importing->counts.bytes = counts.bytes;
    importing->counts.files = counts.files;
    importing->counts.dropped += counts.dropped;
    importing->counts.set_ids += counts.set_ids;
    return r;
}

static int write_record(struct importing *importing, struct err *reterr)
{
    struct image_record *record = &importing->record;
    record->imported_ms = clock_wall_ms();
    record->bytes = importing->counts.bytes;
    record->files = importing->counts.files;
    record->source = strdup(importing->import->source);
    return record->source && record->form && record->digest
               ? image_record_write(importing->staging, record, reterr)
               : err_errno(reterr, ENOMEM, "importing an image");
}

/* What unpacking has left beside the image. */
static int remove_work(const struct importing *importing, struct err *reterr)
{
    CLEANUP(fd_closep) int work = image_open_below(importing->staging, UNPACK_WORK, O_RDONLY | O_DIRECTORY);
    if (work == -ENOENT) {
        return 0;
    }
    int r = work < 0 ? work : tree_clear(work);
    r = r < 0 ? r : unlinkat(importing->staging, UNPACK_WORK, AT_REMOVEDIR) < 0 ? -errno : 0;
    return r < 0 ? err_errno(reterr, -r, "removing what unpacking has left") : 0;
}

static int import_staged(struct importing *importing, struct err *reterr)
{
    const struct image_import *import = importing->import;
    int r = importing->form == FORM_DIRECTORY ? copy_directory(importing, reterr) : unpack(importing, reterr);
    r = r < 0 ? r : settle(importing, reterr);
    r = r < 0 ? r : write_record(importing, reterr);
    r = r < 0 ? r : remove_work(importing, reterr);
    return r < 0 ? r
                 : image_store_publish(importing->store, importing->staging, import->name, import->replace,
                                       reterr);
}

int image_import(const struct image_import *import, struct image_record *ret, struct image_counts *ret_counts,
                 struct err *reterr)
{
    struct importing importing = {.import = import, .source = -1, .store = -1, .staging = -1};
    int r = open_source(&importing, reterr);
    if (r == 0 && importing.form != FORM_DIRECTORY) {
        r = check_programs(reterr);
        r = r < 0 ? r : unpacker_new(&importing.unpacker, reterr);
    }
    r = r < 0 ? r : image_store_lock(import->directory, &importing.store, reterr);
    r = r < 0 ? r : check_apart(&importing, reterr);
    r = r < 0 ? r : image_store_stage(importing.store, &importing.staging, reterr);
    if (r == 0) {
        r = import_staged(&importing, reterr);
        if (r < 0) {
            image_store_unstage(importing.store);
        }
    }
    unpacker_free(importing.unpacker);
    fd_closep(&importing.source);
    fd_closep(&importing.staging);
    fd_closep(&importing.store);
    if (r < 0) {
        image_record_clear(&importing.record);
        return r;
    }
    *ret = importing.record;
    *ret_counts = importing.counts;
    return 0;
}
