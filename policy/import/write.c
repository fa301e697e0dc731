/* A draft as text: its head, the parts that it uses, its mounts in an order that holds, and the rest as it
 * came. Runs in the command line. */
#include "policy/import/write.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/policy/constants.h"
#include "config/policy/policy_file.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/import/calls.h"
#include "policy/import/draft.h"
#include "policy/import/formats.h"
#include "policy/import/import.h"
#include "policy/mounts.h"

static void spec_freep(struct policy_spec **spec)
{
    policy_spec_free(*spec);
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* As policies are called: lower case, and what is no letter or digit becomes '-'. */
static void put_name(const struct draft *draft, struct buf *ret)
{
    const char *name = draft->request->name ? draft->request->name : draft->name;
    name = name && name[0] ? name : base_of(draft->request->path);
    size_t n = 0;
    buf_puts(ret, "name: \"");
    for (; *name && *name != '.' && n < 60; name++) {
        bool upper = *name >= 'A' && *name <= 'Z';
        char c = upper ? (char)(*name - 'A' + 'a') : *name;
        bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
        buf_putc(ret, fine ? c : '-');
        n++;
    }
    buf_puts(ret, n > 0 ? "\"\n" : "imported\"\n");
}

/* Words of a comment, broken into lines. */
static void put_comment(struct buf *ret, const char *text)
{
    size_t width = 0;
    while (*text) {
        size_t length = strcspn(text, " ");
        if (width == 0 || width + length > 110) {
            buf_puts(ret, width == 0 ? "#   " : "\n#     ");
            width = 6;
        } else {
            buf_putc(ret, ' ');
        }
        buf_append(ret, text, length);
        width += length + 1;
        text += length;
        text += strspn(text, " ");
    }
    buf_putc(ret, '\n');
}

static bool said_before(const struct draft_note *notes, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(notes[i].why, notes[index].why) == 0) {
            return true;
        }
    }
    return false;
}

/* Things with one reason on one line, with a word before it; or, without one, as comments. */
static void put_notes(const struct draft_note *notes, size_t n, const char *word, struct buf *ret)
{
    for (size_t i = 0; i < n; i++) {
        CLEANUP(buf_free) struct buf line = BUF_INIT;
        if (said_before(notes, i)) {
            continue;
        }
        for (size_t k = i; k < n; k++) {
            if (strcmp(notes[k].why, notes[i].why) == 0) {
                buf_printf(&line, "%s%s", line.len > 0 ? ", " : "", notes[k].what);
            }
        }
        buf_printf(&line, ": %s", notes[i].why);
        ret->failed |= line.failed;
        if (!word && line.data) {
            put_comment(ret, line.data);
        } else if (line.data) {
            buf_printf(ret, "%s: %s\n", word, line.data);
        }
    }
}

static void put_head(const struct draft *draft, struct buf *ret)
{
    CLEANUP(buf_free) struct buf from = BUF_INIT;
    buf_printf(&from, "Imported from %s (%s). Read it before anything runs under it.",
               base_of(draft->request->path), draft->request->format->what);
    for (char *c = from.data; c && *c; c++) {
        *c = (unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f ? '?' : *c;
    }
    buf_printf(ret, "# %s\n", from.data ? from.data : "");
    if (draft->n_notes > 0) {
        buf_puts(ret, "#\n# Not covered:\n");
        put_notes(draft->notes, draft->n_notes, NULL, ret);
    }
    if (draft->n_suggested > 0) {
        buf_puts(ret, "#\n# Suggested:\n");
        put_notes(draft->suggested, draft->n_suggested, NULL, ret);
    }
    if (draft->n_added > 0) {
        buf_puts(ret, "#\n# Added:\n");
        put_notes(draft->added, draft->n_added, NULL, ret);
    }
    if (draft->otherwise.kind == ACTION_ALLOW || draft->otherwise.kind == ACTION_LOG) {
        buf_puts(ret,
                 "#\n# The source allows every call that it does not deny. Here the parts \"processes\" and "
                 "\"sockets\" say what is\n# allowed, less what the source denies; any other call fails with "
                 "EPERM and is named.\n");
    }
    buf_putc(ret, '\n');
}

/* Scratch directories behind what lies nowhere in them, and before what does; what is above before what is
 * below. */
static int rank(const struct draft *draft, const struct draft_mount *mount)
{
    if (mount->kind == POLICY_MOUNT_SCRATCH) {
        return 1;
    }
    for (size_t i = 0; i < draft->n_mounts; i++) {
        const struct draft_mount *other = &draft->mounts[i];
        if (other->kind == POLICY_MOUNT_SCRATCH && path_is_below(mount->destination, other->destination)) {
            return 2;
        }
    }
    return 0;
}

static int compare_mounts(const void *a, const void *b, void *draft)
{
    const struct draft_mount *x = a, *y = b;
    int by_rank = rank(draft, x) - rank(draft, y);
    return by_rank != 0 ? by_rank : strcmp(x->destination, y->destination);
}

/* Whether it replaces what a part mounts. */
static bool clashes(const struct draft_mount *mount, const struct policy_mount *part)
{
    return path_is_at_or_below(part->destination, mount->destination) ||
           (part->kind == POLICY_MOUNT_SYMLINK && path_is_below(mount->destination, part->destination));
}

static bool is_left_out(const struct draft *draft, const struct policy_mount *part)
{
    for (size_t i = 0; i < draft->n_mounts; i++) {
        if (clashes(&draft->mounts[i], part)) {
            return true;
        }
    }
    return false;
}

struct above {
    const char *destination, *source;
    enum policy_mount_kind kind;
    bool writable;
};

static void look_above(const char *path, struct above mount, struct above *ret)
{
    if (path_is_below(path, mount.destination) &&
        (!ret->destination || strlen(mount.destination) > strlen(ret->destination))) {
        *ret = mount;
    }
}

/* What a path lies on: one of the first `n` mounts, or one of a part. */
static struct above mount_above(const struct draft *draft, const struct policy_spec *base, size_t n,
                                const char *path)
{
    struct above ret = {0};
    for (size_t i = 0; i < base->n_mounts; i++) {
        const struct policy_mount *mount = &base->mounts[i];
        if (!is_left_out(draft, mount)) {
            look_above(path,
                       (struct above){mount->destination, mount->source, mount->kind, !mount->read_only},
                       &ret);
        }
    }
    for (size_t i = 0; i < n; i++) {
        const struct draft_mount *mount = &draft->mounts[i];
        look_above(path, (struct above){mount->destination, mount->source, mount->kind, mount->writable},
                   &ret);
    }
    return ret;
}

/* Why it cannot be mounted there; NULL: it can. */
static const char *problem_above(const struct draft *draft, const struct draft_mount *mount,
                                 const struct above *above)
{
    if (!above->destination) {
        return NULL;
    }
    char place[4096];
    switch (above->kind) {
    case POLICY_MOUNT_SYMLINK:
    case POLICY_MOUNT_FILE:
        return "would lie below what is no directory";
    case POLICY_MOUNT_PROC:
        return "would lie below a proc";
    case POLICY_MOUNT_TMPFS:
        return above->writable ? NULL : "would lie below a tmpfs that is read-only";
    case POLICY_MOUNT_SCRATCH:
        return mount->kind == POLICY_MOUNT_SCRATCH ? "would lie in another scratch directory" : NULL;
    case POLICY_MOUNT_BIND:
        break;
    }
    if (mount->kind == POLICY_MOUNT_FILE || mount->kind == POLICY_MOUNT_SYMLINK || above->writable) {
        return "would be made in a directory of the host";
    }
    snprintf(place, sizeof place, "%s%s", above->source, mount->destination + strlen(above->destination));
    return import_host_has(draft, place) ? NULL : "the directory of the host below it has no such place";
}

static void drop_mount(struct draft *draft, size_t index, const char *why)
{
    draft_note(draft, why, "mount %s", draft->mounts[index].destination);
    memmove(&draft->mounts[index], &draft->mounts[index + 1],
            (draft->n_mounts - index - 1) * sizeof *draft->mounts);
    draft->n_mounts--;
}

static void put_mount(const struct draft_mount *mount, struct buf *ret)
{
    static const char *const directories[][2] = {{"work", "WORK"}, {"tmp", "TMP"}, {"shm", "SHM"}};
    buf_puts(ret, "mount { destination: ");
    put_quoted(ret, mount->destination, strlen(mount->destination));
    switch (mount->kind) {
    case POLICY_MOUNT_BIND:
    case POLICY_MOUNT_SYMLINK:
        buf_puts(ret, mount->kind == POLICY_MOUNT_BIND ? " bind { source: " : " symlink { target: ");
        put_quoted(ret, mount->source, strlen(mount->source));
        buf_puts(ret, " }");
        break;
    case POLICY_MOUNT_FILE:
        buf_puts(ret, " file { content: ");
        put_quoted(ret, mount->source, strlen(mount->source));
        buf_puts(ret, " }");
        break;
    case POLICY_MOUNT_TMPFS:
        buf_printf(ret, " tmpfs { size_bytes: %llu inodes: 1024 mode: 01777 }",
                   (unsigned long long)mount->size_bytes);
        break;
    case POLICY_MOUNT_PROC:
        buf_puts(ret, " proc {}");
        break;
    case POLICY_MOUNT_SCRATCH:
        for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
            if (strcmp(directories[i][0], mount->source) == 0) {
                buf_printf(ret, " scratch { directory: %s }", directories[i][1]);
            }
        }
        break;
    }
    bool writable = mount->kind == POLICY_MOUNT_BIND || mount->kind == POLICY_MOUNT_TMPFS;
    buf_puts(ret, mount->writable && writable ? " read_only: false" : "");
    buf_puts(ret, mount->devices && mount->kind == POLICY_MOUNT_BIND ? " allow_devices: true" : "");
    buf_puts(ret, mount->no_exec && mount->kind != POLICY_MOUNT_SYMLINK && mount->kind != POLICY_MOUNT_FILE
                      ? " no_exec: true"
                      : "");
    buf_puts(ret, mount->optional ? " optional: true" : "");
    buf_puts(ret, " }\n");
}

/* What the host does not have stays as a comment: where nobody but its owner could look for it, optional
 * would not be enough. */
static void settle_sources(struct draft *draft)
{
    size_t n = 0;
    for (size_t i = 0; i < draft->n_mounts; i++) {
        struct draft_mount *mount = &draft->mounts[i];
        if (mount->kind == POLICY_MOUNT_BIND && !import_host_has(draft, mount->source)) {
            draft_note(draft, "is not on this host: its mount is left as a comment", "%s", mount->source);
            CLEANUP(buf_free) struct buf text = BUF_INIT;
            put_mount(mount, &text);
            draft_comment(draft, text.data ? text.data : "", text.len);
            draft->failed |= text.failed;
        } else {
            draft->mounts[n++] = *mount;
        }
    }
    draft->n_mounts = n;
}

static void settle_mounts(struct draft *draft, const struct policy_spec *base)
{
    if (draft->n_mounts > 1) {
        qsort_r(draft->mounts, draft->n_mounts, sizeof *draft->mounts, compare_mounts, draft);
    }
    for (size_t i = 0; i < draft->n_mounts;) {
        struct draft_mount *mount = &draft->mounts[i];
        struct above above = mount_above(draft, base, i, mount->destination);
        const char *problem = problem_above(draft, mount, &above);
        if (problem) {
            drop_mount(draft, i, problem);
            continue;
        }
        i++;
    }
}

/* Where the scratch's working directory is; it is made where there is none. */
static const char *work_directory(struct draft *draft, const char *path)
{
    for (size_t i = 0; i < draft->n_mounts; i++) {
        const struct draft_mount *mount = &draft->mounts[i];
        if (mount->kind == POLICY_MOUNT_SCRATCH && strcmp(mount->source, "work") == 0) {
            return mount->destination;
        }
    }
    draft_mount(draft,
                (struct draft_mount){.destination = path, .source = "work", .kind = POLICY_MOUNT_SCRATCH});
    draft_added(draft, "the working directory, in memory", "mount %s", path);
    return path;
}

/* The working directory has to lie on something. */
static void settle_working_directory(struct draft *draft, const struct policy_spec *base)
{
    const char *path = draft->working_directory;
    if (!path) {
        return;
    }
    bool possible = !path_problem(path);
    const char *below = draft_printf(draft, "%s/", path);
    struct above above = mount_above(draft, base, draft->n_mounts, below);
    if (!possible || !above.destination || above.kind == POLICY_MOUNT_SYMLINK ||
        above.kind == POLICY_MOUNT_FILE) {
        bool free_place = possible && !above.destination && !draft->host_files;
        path = draft->host_files ? "/workspace" : work_directory(draft, free_place ? path : "/workspace");
        if (strcmp(path, draft->working_directory) != 0) {
            draft_note(draft, "lies on nothing that is mounted; programs begin elsewhere",
                       "working directory %s", draft->working_directory);
        }
    }
    draft_string(draft, "working_directory", path, strlen(path));
}

static bool shows(const struct draft *draft, const char *path)
{
    for (size_t i = 0; i < draft->n_mounts; i++) {
        const struct draft_mount *mount = &draft->mounts[i];
        if (mount->kind == POLICY_MOUNT_BIND && path_is_at_or_below(path, mount->destination)) {
            return true;
        }
    }
    return false;
}

/* Where the first directory of a path is a link on this host, it is one in the jail. */
static void link_first(struct draft *draft, const char *path)
{
    char target[256];
    size_t length = 1 + strcspn(path + 1, "/");
    const char *first = draft_text(draft, path, length);
    ssize_t n = draft->request->alone ? -1 : readlink(first, target, sizeof target - 1);
    if (n > 0 && !shows(draft, first)) {
        target[n] = '\0';
        draft_mount(draft, (struct draft_mount){.destination = first,
                                                .source = draft_text(draft, target, (size_t)n),
                                                .kind = POLICY_MOUNT_SYMLINK});
    }
}

/* Whether it is a program for the kernel, not a script for an interpreter. */
static bool is_binary(const struct draft *draft, const char *path)
{
    char magic[4];
    CLEANUP(fd_closep) int fd = draft->request->alone ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 && read(fd, magic, sizeof magic) == sizeof magic && memcmp(magic, "\177ELF", 4) == 0;
}

static void show_interpreter(struct draft *draft, const char *program)
{
    draft_string(draft, "interpreter", program, strlen(program));
    draft_added(draft, "shown with the libraries that it needs", "interpreter %s", program);
}

static void show_usr_bin(struct draft *draft)
{
    draft_mount(draft, (struct draft_mount){
                           .destination = "/usr/bin", .source = "/usr/bin", .kind = POLICY_MOUNT_BIND});
    link_first(draft, "/bin/sh");
    draft_added(draft, "nothing else could be run; leave it out for a program of your own", "mount /usr/bin");
}

/* The libraries of what is in /usr/bin; and a program that lies elsewhere. */
static void show_libraries(struct draft *draft, const char *program, bool binary)
{
    static const char *const libraries[] = {"/usr/lib", "/usr/lib64"};
    for (size_t i = 0; i < ARRAY_SIZE(libraries); i++) {
        draft_mount(draft, (struct draft_mount){.destination = libraries[i],
                                                .source = libraries[i],
                                                .kind = POLICY_MOUNT_BIND,
                                                .optional = i > 0});
        draft_added(draft, "libraries of what is in /usr/bin", "mount %s", libraries[i]);
    }
    link_first(draft, "/lib64/");
    bool elsewhere = program && !path_is_below(program, "/usr/bin") && !path_is_below(program, "/bin") &&
                     !path_is_below(program, "/usr/lib") && !path_is_below(program, "/lib");
    if (elsewhere && binary) {
        show_interpreter(draft, program);
    } else if (elsewhere) {
        draft_mount(draft, (struct draft_mount){
                               .destination = program, .source = program, .kind = POLICY_MOUNT_BIND});
    }
}

/* Where a program of its own is all that there is, nobody else's can be run; that is for the author to say.
 */
static void suggest_usr_bin(struct draft *draft)
{
    static const char line[] = "mount { destination: \"/usr/bin\" bind { source: \"/usr/bin\" } }\n";
    if (!shows(draft, "/usr/bin") && !shows(draft, "/bin")) {
        draft_suggest(draft, "nothing but the program can be run without it", "mount /usr/bin");
        draft_comment(draft, line, strlen(line));
    }
}

/* Something has to be there to be run. */
static void settle_program(struct draft *draft)
{
    const char *program = draft->program;
    bool found = program && import_host_has(draft, program), binary = found && is_binary(draft, program);
    if (draft->host_files) {
        show_libraries(draft, found ? program : NULL, binary);
    } else if (binary && !shows(draft, program)) {
        show_interpreter(draft, program);
        link_first(draft, program);
        suggest_usr_bin(draft);
    } else if (found && shows(draft, program)) {
        suggest_usr_bin(draft);
    } else if (!shows(draft, "/usr/bin") && !shows(draft, "/bin")) {
        show_usr_bin(draft);
    }
}

static void put_left_out(struct buf *ret, const char *field, const struct buf *items)
{
    if (items->data) {
        buf_printf(ret, " %s: [%s]", field, items->data);
    }
    ret->failed |= items->failed;
}

static bool has_field(const struct draft_field *fields, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* What the parts have and the draft has in another way. */
static void put_without(const struct draft *draft, const struct policy_spec *base, const struct buf *calls,
                        struct buf *ret)
{
    CLEANUP(buf_free) struct buf mounts = BUF_INIT;
    CLEANUP(buf_free) struct buf env = BUF_INIT;
    CLEANUP(buf_free) struct buf rlimits = BUF_INIT;
    for (size_t i = 0; i < base->n_mounts; i++) {
        if (is_left_out(draft, &base->mounts[i])) {
            buf_printf(&mounts, "%s\"%s\"", mounts.len > 0 ? ", " : "", base->mounts[i].destination);
        }
    }
    for (size_t i = 0; i < base->n_env; i++) {
        if (has_field(draft->env, draft->n_env, base->env[i].name)) {
            buf_printf(&env, "%s\"%s\"", env.len > 0 ? ", " : "", base->env[i].name);
        }
    }
    for (size_t i = 0; i < base->n_rlimits; i++) {
        const char *name = constant_name("resource", base->rlimits[i].resource);
        name = name ? name + strlen("RLIMIT_") : "";
        if (has_field(draft->rlimits, draft->n_rlimits, name)) {
            buf_printf(&rlimits, "%s%s", rlimits.len > 0 ? ", " : "", name);
        }
    }
    if (mounts.data || env.data || rlimits.data || calls->data) {
        buf_puts(ret, "without {");
        put_left_out(ret, "mount", &mounts);
        put_left_out(ret, "env", &env);
        put_left_out(ret, "rlimit", &rlimits);
        put_left_out(ret, "syscall", calls);
        buf_puts(ret, " }\n");
    }
}

static void put_fields(const struct draft_field *fields, size_t n, struct buf *ret)
{
    for (size_t i = 0; i < n; i++) {
        buf_printf(ret, "%s\n", fields[i].text);
    }
}

static void put_body(struct draft *draft, const struct policy_spec *base, const struct buf *without,
                     const struct buf *seccomp, struct buf *ret)
{
    put_name(draft, ret);
    if (draft->description) {
        buf_puts(ret, "description: ");
        put_quoted(ret, draft->description, strlen(draft->description));
        buf_putc(ret, '\n');
    }
    buf_printf(ret, "use: [%s]\n", calls_parts(draft));
    put_without(draft, base, without, ret);
    put_fields(draft->fields, draft->n_fields, ret);
    for (size_t i = 0; i < draft->n_mounts; i++) {
        put_mount(&draft->mounts[i], ret);
    }
    for (size_t i = 0; i < draft->n_comments; i++) {
        buf_printf(ret, "# %s", draft->comments[i].text);
    }
    put_fields(draft->env, draft->n_env, ret);
    put_fields(draft->rlimits, draft->n_rlimits, ret);
    if (draft->n_limits > 0) {
        buf_puts(ret, "limits {");
        for (size_t i = 0; i < draft->n_limits; i++) {
            buf_printf(ret, " %s", draft->limits[i].text);
        }
        buf_puts(ret, " }\n");
    }
    buf_append(ret, seccomp->data, seccomp->len);
}

int draft_write(struct draft *draft, struct buf *ret, struct buf *ret_notes, struct err *reterr)
{
    CLEANUP(spec_freep) struct policy_spec *base = NULL;
    CLEANUP(buf_free) struct buf without = BUF_INIT;
    CLEANUP(buf_free) struct buf seccomp = BUF_INIT;
    int r = calls_base(draft, &base, reterr);
    r = r < 0 ? r : calls_text(draft, base, &seccomp, &without, reterr);
    if (r < 0) {
        return r;
    }
    if (draft->otherwise.kind == ACTION_LOG) {
        draft_note(draft, "what the parts allow is not logged", "default action LOG");
    }
    settle_sources(draft);
    settle_program(draft);
    settle_working_directory(draft, base);
    settle_mounts(draft, base);
    if (seccomp.failed || without.failed || draft->failed) {
        ret->failed = true;
        return 0;
    }
    put_head(draft, ret);
    put_body(draft, base, &without, &seccomp, ret);
    put_notes(draft->notes, draft->n_notes, "not covered", ret_notes);
    put_notes(draft->suggested, draft->n_suggested, "suggested", ret_notes);
    return 0;
}
