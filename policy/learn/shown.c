/* The mounts of a learned policy: for each path that its parent does not show, the directory that it lies in,
 * once; the links that lead there; and what is not shown, with the reason. Runs in the command line. Looks at
 * no file. */
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/policy/policy_file.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "policy/compiled.h"
#include "policy/learn/learn.h"
#include "policy/learn/learn_internal.h"
#include "policy/learn/observed.h"
#include "policy/learn/places.h"
#include "policy/mounts.h"

/* So many files of one directory below the working directory are a mount, and no files to be given. */
#define GIVEN_FILES_MAX 8u
#define GIVEN_NAMES_MAX 20u
/* Of paths and reasons that are told. */
#define NOTE_PATHS_MAX   6u
#define NOTE_REASONS_MAX 32u /* more than there are */
#define LINE_WIDTH       110u

/* So many files that lie beside each other are mounted as their directory. */
#define SINGLE_FILES_MAX 3u

#define IN_HOME "lies in a home"
#define HOLDS   "has something in it that is a secret, or may be; mount what lies beside that"
#define CLOSED  "not for everybody to read, as a jail of root's would have to"

struct unit {
    char *path;
    uint64_t n_files;
    bool single; /* a file by itself, for which no directory stands */
};

/* Paths that are not given for one reason. */
struct withheld {
    const char *reason;
    const char *paths[NOTE_PATHS_MAX];
    size_t n_paths;
};

struct shown {
    const struct observed *observed;
    const struct policy *parent;
    struct unit *units;
    size_t n_units;
    struct withheld withheld[NOTE_REASONS_MAX];
    size_t n_withheld;
    struct learn_section *section;
    bool proc, failed;
};

void learn_put_text(struct buf *ret, const char *text, size_t length)
{
    for (const char *c = text; c < text + length; c++) {
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ' || *c == 0x7f) {
            buf_printf(ret, "\\%03o", (unsigned char)*c);
        } else {
            buf_putc(ret, *c);
        }
    }
}

void learn_put_quoted(struct buf *ret, const char *text)
{
    buf_putc(ret, '"');
    learn_put_text(ret, text, strlen(text));
    buf_putc(ret, '"');
}

/* What stands at `path` in a jail of the parent is the host's, or the parent's own. */
static bool is_covered(const struct policy *parent, const char *path)
{
    const struct policy_mount *over = policy_mount_over(parent->spec, path);
    if (over && over->kind != POLICY_MOUNT_SCRATCH && over->kind != POLICY_MOUNT_TMPFS) {
        return true;
    }
    for (size_t i = 0; parent->shown && i < parent->shown->n_needs; i++) {
        if (path_is_at_or_below(path, parent->shown->needs[i].path)) {
            return true;
        }
    }
    return false;
}

/* Relative to where the program started; NULL: it lies elsewhere. */
static const char *below_cwd(const struct observed *observed, const char *path)
{
    bool below = path_is_below(path, observed->cwd) && observed->cwd[1] != '\0';
    return below ? path + strlen(observed->cwd) + 1 : NULL;
}

/* `path` and `reason` outlive the notes. */
static void note(struct shown *shown, const char *path, const char *reason)
{
    size_t i = 0;
    while (i < shown->n_withheld && strcmp(shown->withheld[i].reason, reason) != 0) {
        i++;
    }
    if (i == NOTE_REASONS_MAX) {
        return;
    }
    shown->n_withheld = i == shown->n_withheld ? i + 1 : shown->n_withheld;
    struct withheld *withheld = &shown->withheld[i];
    withheld->reason = reason;
    if (withheld->n_paths < NOTE_PATHS_MAX) {
        withheld->paths[withheld->n_paths] = path;
    }
    withheld->n_paths++;
}

/* Appends a word to a comment of several lines, of which the last one is `*column` wide. */
static void put_word(struct buf *ret, const char *word, size_t length, size_t *column)
{
    if (*column + length + 1 > LINE_WIDTH) {
        buf_puts(ret, "\n#    ");
        *column = 5;
    }
    buf_putc(ret, ' ');
    learn_put_text(ret, word, length);
    *column += length + 1;
}

static void put_notes(const struct shown *shown)
{
    struct buf *notes = shown->section->notes;
    for (size_t i = 0; i < shown->n_withheld; i++) {
        const struct withheld *withheld = &shown->withheld[i];
        size_t n = withheld->n_paths < NOTE_PATHS_MAX ? withheld->n_paths : NOTE_PATHS_MAX;
        size_t column = strlen(withheld->reason) + 5;
        buf_printf(notes, "#   %s:", withheld->reason);
        for (size_t k = 0; k < n; k++) {
            put_word(notes, withheld->paths[k], strlen(withheld->paths[k]), &column);
        }
        if (withheld->n_paths > n) {
            buf_printf(notes, " and %zu more", withheld->n_paths - n);
        }
        buf_putc(notes, '\n');
    }
}

static void add_unit(struct shown *shown, const char *path, bool single)
{
    for (size_t i = 0; i < shown->n_units; i++) {
        if (path_is_at_or_below(path, shown->units[i].path)) {
            shown->units[i].n_files++;
            return;
        }
    }
    struct unit *units = realloc(shown->units, (shown->n_units + 1) * sizeof *units);
    char *own = units ? strdup(path) : NULL;
    shown->units = units ? units : shown->units;
    if (!own) {
        shown->failed = true;
        return;
    }
    shown->units[shown->n_units++] = (struct unit){own, 1, single};
}

static bool holds_secret(const struct observed *observed, const char *unit)
{
    for (size_t i = 0; i < observed->n_paths; i++) {
        if (observed->paths[i].how & PATH_SECRET && path_is_below(observed->paths[i].path, unit)) {
            return true;
        }
    }
    return false;
}

/* Why it is not shown; NULL: it may be. */
static const char *secret_of(const struct observed_path *path)
{
    const char *reason = place_secret(path->path);
    return reason ? reason : path->how & PATH_SECRET ? IN_HOME : NULL;
}

/* A unit that would hide what the parent shows below it, or that holds a secret or where the program works,
 * is taken apart. */
static bool hides(const struct shown *shown, const char *unit)
{
    const struct policy_spec *spec = shown->parent->spec;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        if (path_is_below(spec->mounts[i].destination, unit)) {
            return true;
        }
    }
    return path_is_at_or_below(shown->observed->cwd, unit) || holds_secret(shown->observed, unit);
}

static bool is_program_of_cwd(const struct observed_path *path)
{
    return path->how & PATH_PROGRAM && !(path->how & PATH_CREATED);
}

/* A jail of root's is nobody in particular: it cannot be shown what not everybody may read. */
static bool is_closed(const struct observed_path *path)
{
    return path->how & PATH_PRIVATE && geteuid() == 0;
}

/* The directory right below the working directory that so much of is read that it is mounted. */
static bool is_in_wide_directory(const struct observed *observed, const char *full, char ret[PATH_MAX])
{
    const char *relative = below_cwd(observed, full);
    size_t length = strcspn(relative, "/"), n_files = 0;
    snprintf(ret, PATH_MAX, "%.*s", (int)(relative - full + (ptrdiff_t)length), full);
    if (relative[length] == '\0' || place_secret(ret) || holds_secret(observed, ret)) {
        return false;
    }
    for (size_t i = 0; i < observed->n_paths; i++) {
        const struct observed_path *path = &observed->paths[i];
        if (path_is_below(path->path, ret)) {
            if (path->how & (PATH_CREATED | PATH_WRITTEN) || is_closed(path)) {
                return false;
            }
            n_files += path->how & PATH_READ && !(path->how & PATH_DIRECTORY);
        }
    }
    return n_files > GIVEN_FILES_MAX;
}

static bool is_given(const struct observed_path *path)
{
    return path->how & (PATH_READ | PATH_WRITTEN) &&
           !(path->how & (PATH_CREATED | PATH_DIRECTORY | PATH_PROGRAM | PATH_LINK | PATH_REFUSED)) &&
           !strchr(path->path, '='); /* --file NAME=FILE could not say it */
}

void learn_files(const struct observed *observed, struct buf *ret)
{
    char wide[PATH_MAX];
    for (size_t i = 0; i < observed->n_paths; i++) {
        const struct observed_path *path = &observed->paths[i];
        const char *relative = below_cwd(observed, path->path);
        if (relative && is_given(path) && !is_in_wide_directory(observed, path->path, wide)) {
            buf_printf(ret, "%s=%s\n", relative, path->path);
        }
    }
}

static void look_at_cwd(struct shown *shown, const struct observed_path *path)
{
    char wide[PATH_MAX];
    if (path->how & PATH_CREATED) {
        return;
    }
    if (is_in_wide_directory(shown->observed, path->path, wide)) {
        add_unit(shown, wide, false);
    } else if (is_program_of_cwd(path)) {
        const char *reason = is_closed(path) ? CLOSED : secret_of(path);
        /* A home is where people work: the program that they name is not the home. */
        reason = reason && strcmp(reason, IN_HOME) == 0 ? NULL : reason;
        if (reason) {
            note(shown, path->path, reason);
        } else {
            add_unit(shown, path->path, false);
        }
    }
}

static void look_at_proc(struct shown *shown, const struct observed_path *path)
{
    const char *name = path->path + strlen("/proc");
    static const char *const own[] = {"/self", "/thread-self"};
    for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
        if (path_is_at_or_below(name, own[i])) {
            shown->proc |= !is_covered(shown->parent, "/proc");
            return;
        }
    }
    if (*name && path->how & PATH_READ) {
        note(shown, path->path, "tells of the host, and a jail's /proc of its processes alone");
    }
}

/* True if the jail has that link for the sake of its interpreter, or has a directory in its place. */
static bool is_need(const struct shown *shown, const struct observed_path *link)
{
    const struct runtime_config *runtime = shown->parent->shown;
    const char *name = strrchr(link->path, '/');
    for (size_t i = 0; runtime && i < runtime->n_needs; i++) {
        const struct interpreter_need *need = &runtime->needs[i];
        const char *file = strrchr(need->path, '/');
        if (path_is_below(need->path, link->path) ||
            (!need->target && path_is_below(link->path, need->path)) ||
            (need->target && strcmp(name, file) == 0)) {
            return true;
        }
    }
    return false;
}

static void look_at_link(struct shown *shown, const struct observed_path *path)
{
    const char *secret = secret_of(path);
    const struct policy_mount *over = policy_mount_over(shown->parent->spec, path->path);
    if (secret || (over && over->kind != POLICY_MOUNT_SCRATCH) || below_cwd(shown->observed, path->path)) {
        return;
    }
    for (size_t i = 0; i < shown->n_units; i++) {
        if (path_is_at_or_below(path->path, shown->units[i].path)) {
            return;
        }
    }
    if (is_need(shown, path)) {
        return;
    }
    struct buf *fields = shown->section->fields;
    buf_puts(fields, "mount { destination: ");
    learn_put_quoted(fields, path->path);
    buf_puts(fields, " symlink { target: ");
    learn_put_quoted(fields, path->target);
    buf_puts(fields, " } }\n");
    shown->section->n_fields++;
}

static void look_at_file(struct shown *shown, const struct observed_path *path)
{
    char unit[PATH_MAX];
    bool directory = path->how & PATH_DIRECTORY;
    const char *secret = path_is_harmless_device(path->path) ? NULL : secret_of(path);
    if (secret) {
        note(shown, path->path, secret);
        return;
    }
    if (is_closed(path)) {
        note(shown, path->path, CLOSED);
        return;
    }
    const struct policy_mount *over = policy_mount_over(shown->parent->spec, path->path);
    bool scratch = over && over->kind == POLICY_MOUNT_SCRATCH;
    if (path->how & PATH_WRITTEN && !path_is_harmless_device(path->path) && !scratch) {
        note(shown, path->path, "written to, and neither in the working directory nor in /tmp");
    }
    if (scratch && (directory || path->how & PATH_WRITTEN)) {
        return; /* a jail has its own /tmp */
    }
    if (path_is_harmless_device(path->path)) {
        add_unit(shown, path->path, false);
        return;
    }
    if (place_of(path->path, directory, unit)) {
        while (hides(shown, unit) && strlen(unit) < strlen(path->path)) {
            size_t length = strlen(unit);
            length += 1 + strcspn(path->path + length + 1, "/");
            snprintf(unit, sizeof unit, "%.*s", (int)length, path->path);
        }
        if (!hides(shown, unit)) {
            add_unit(shown, unit, !directory && strcmp(unit, path->path) == 0);
        } else if (holds_secret(shown->observed, unit)) {
            note(shown, path->path, HOLDS);
        }
    }
}

static void look_at(struct shown *shown, const struct observed_path *path)
{
    if (path->how & PATH_REFUSED) {
        note(shown, path->path, "refused to this user");
    } else if (path_is_at_or_below(path->path, "/proc")) {
        look_at_proc(shown, path);
    } else if (below_cwd(shown->observed, path->path)) {
        look_at_cwd(shown, path);
    } else if (path->how & PATH_CREATED) {
        const struct policy_mount *over = policy_mount_over(shown->parent->spec, path->path);
        if (!over || over->kind != POLICY_MOUNT_SCRATCH) {
            note(shown, path->path, "written to, and neither in the working directory nor in /tmp");
        }
    } else if (path->how & (PATH_READ | PATH_EXECUTED | PATH_WRITTEN) && !(path->how & PATH_LINK) &&
               strcmp(path->path, shown->observed->cwd) != 0 && !is_covered(shown->parent, path->path)) {
        look_at_file(shown, path);
    }
}

static int compare_units(const void *a, const void *b)
{
    const struct unit *one = a, *two = b;
    return strcmp(one->path, two->path);
}

static void put_unit(struct shown *shown, const struct unit *unit)
{
    const char *relative = below_cwd(shown->observed, unit->path);
    const char *source = unit->path, *more = path_is_harmless_device(source) ? " allow_devices: true" : "";
    struct buf *fields = shown->section->fields;
    if (unit->n_files > 1) {
        buf_printf(fields, "# %" PRIu64 " files:\n", unit->n_files);
    }
    CLEANUP(buf_free) struct buf destination = BUF_INIT;
    buf_printf(&destination, "%s%s%s", relative ? shown->parent->spec->working_directory : "",
               relative ? "/" : "", relative ? relative : source);
    buf_puts(fields, "mount { destination: ");
    learn_put_quoted(fields, destination.data ? destination.data : "");
    buf_puts(fields, " bind { source: ");
    learn_put_quoted(fields, source);
    buf_printf(fields, " }%s }\n", more);
    shown->section->n_fields++;
}

/* The directory of a single file, where that can be mounted in the place of it and its neighbours. */
static bool may_widen(const struct shown *shown, size_t index, char ret[PATH_MAX])
{
    char place[PATH_MAX];
    size_t n = 0;
    snprintf(ret, PATH_MAX, "%s", shown->units[index].path);
    *strrchr(ret, '/') = '\0';
    for (size_t i = 0; i < shown->n_units; i++) {
        const char *path = shown->units[i].path;
        n += shown->units[i].single && path_is_below(path, ret) && !strchr(path + strlen(ret) + 1, '/');
    }
    return n > SINGLE_FILES_MAX && place_of(ret, true, place) && strcmp(place, ret) == 0 &&
           !hides(shown, ret);
}

static void widen(struct shown *shown)
{
    char directory[PATH_MAX];
    size_t n_singles = shown->n_units;
    for (size_t i = 0; i < n_singles; i++) {
        if (!shown->units[i].single || !may_widen(shown, i, directory)) {
            continue;
        }
        for (size_t k = i; k < n_singles; k++) {
            shown->units[k].single =
                shown->units[k].single && !path_is_below(shown->units[k].path, directory);
        }
        size_t before = shown->n_units;
        add_unit(shown, directory, false);
        if (shown->n_units > before) {
            shown->units[before].n_files = 0; /* those below it are counted when they become part of it */
        }
    }
}

/* Sorted by name, a directory comes before what lies in it. */
static void put_units(struct shown *shown)
{
    size_t n = 0;
    widen(shown);
    if (shown->n_units > 0) {
        qsort(shown->units, shown->n_units, sizeof *shown->units, compare_units);
    }
    for (size_t i = 0; i < shown->n_units; i++) {
        struct unit unit = shown->units[i];
        bool inside = false;
        for (size_t k = 0; k < n && !inside; k++) {
            inside = path_is_below(unit.path, shown->units[k].path);
            shown->units[k].n_files += inside ? unit.n_files : 0;
        }
        if (inside) {
            free(unit.path);
        } else {
            shown->units[n++] = unit;
        }
    }
    shown->n_units = n;
    for (size_t i = 0; i < n; i++) {
        put_unit(shown, &shown->units[i]);
    }
}

static void put_given(struct shown *shown)
{
    struct buf *fields = shown->section->fields;
    CLEANUP(buf_free) struct buf files = BUF_INIT;
    learn_files(shown->observed, &files);
    size_t n = 0, column = LINE_WIDTH;
    for (const char *line = files.data; line && *line; line += strcspn(line, "\n") + 1) {
        if (n == 0) {
            buf_puts(fields, "# Read of the working directory; `immure run --file NAME=FILE` gives them:");
        }
        if (n++ < GIVEN_NAMES_MAX) {
            put_word(fields, line, strcspn(line, "="), &column);
        }
    }
    if (n > GIVEN_NAMES_MAX) {
        buf_printf(fields, " and %zu more", n - GIVEN_NAMES_MAX);
    }
    buf_puts(fields, n > 0 ? "\n" : "");
}

void places_write(const struct observed *observed, const struct policy *parent, struct learn_section *ret)
{
    struct shown shown = {.observed = observed, .parent = parent, .section = ret};
    for (size_t i = 0; i < observed->n_paths; i++) {
        look_at(&shown, &observed->paths[i]);
    }
    put_units(&shown);
    for (size_t i = 0; i < observed->n_paths; i++) {
        if (observed->paths[i].how & PATH_LINK) {
            look_at_link(&shown, &observed->paths[i]);
        }
    }
    if (shown.proc) {
        buf_puts(ret->fields, "mount { destination: \"/proc\" proc {} optional: true }\n");
        ret->n_fields++;
    }
    put_given(&shown);
    put_notes(&shown);
    for (size_t i = 0; i < shown.n_units; i++) {
        free(shown.units[i].path);
    }
    free(shown.units);
    ret->fields->failed |= shown.failed;
}
