/* A plan as stable text: what `immure policy explain` prints, what golden tests compare and what errors
 * quote. Runs in the parent only. Safe on any plan, checked or not, as errors about broken plans are written
 * with it. */
#include "jail/plan/plan.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "jail/base/buf.h"
#include "jail/base/capability.h"
#include "jail/base/cleanup.h"

#define CONTENT_SHOWN 48u /* bytes of an inline file */

static const struct step_row {
    const char *word, *doc;
} step_rows[JAIL_STEP_COUNT] = {
#define X(name, word, where, doc) [JAIL_STEP_##name] = {word, doc},
#include "jail/plan/steps.def"
#undef X
};

static const struct bit_row {
    uint64_t bit;
    const char *word;
} namespace_rows[] =
    {
        {CLONE_NEWUSER, "user"}, {CLONE_NEWNS, "mount"}, {CLONE_NEWPID, "pid"},       {CLONE_NEWNET, "net"},
        {CLONE_NEWIPC, "ipc"},   {CLONE_NEWUTS, "uts"},  {CLONE_NEWCGROUP, "cgroup"}, {CLONE_NEWTIME, "time"},
},
  flag_rows[] = {
      {JAIL_MOUNT_READONLY, "ro"},
      {JAIL_MOUNT_NOSUID, "nosuid"},
      {JAIL_MOUNT_NODEV, "nodev"},
      {JAIL_MOUNT_NOEXEC, "noexec"},
      {JAIL_MOUNT_OPTIONAL, "optional"},
      {JAIL_MOUNT_RECURSIVE, "recursive"},
      {JAIL_MOUNT_FILE, "file"},
      {JAIL_PROC_SUBSET_PID, "subset=pid"},
      {JAIL_PROC_HIDE, "hidepid=invisible"},
};

static const char *const rlimit_words[] = {
    [RLIMIT_AS] = "AS",           [RLIMIT_CORE] = "CORE",         [RLIMIT_CPU] = "CPU",
    [RLIMIT_DATA] = "DATA",       [RLIMIT_FSIZE] = "FSIZE",       [RLIMIT_LOCKS] = "LOCKS",
    [RLIMIT_MEMLOCK] = "MEMLOCK", [RLIMIT_MSGQUEUE] = "MSGQUEUE", [RLIMIT_NICE] = "NICE",
    [RLIMIT_NOFILE] = "NOFILE",   [RLIMIT_NPROC] = "NPROC",       [RLIMIT_RSS] = "RSS",
    [RLIMIT_RTPRIO] = "RTPRIO",   [RLIMIT_RTTIME] = "RTTIME",     [RLIMIT_SIGPENDING] = "SIGPENDING",
    [RLIMIT_STACK] = "STACK",
};

const char *jail_step_word(enum jail_step_kind kind)
{
    return (unsigned)kind < JAIL_STEP_COUNT ? step_rows[kind].word : "unknown";
}

const char *jail_step_doc(enum jail_step_kind kind)
{
    return (unsigned)kind < JAIL_STEP_COUNT ? step_rows[kind].doc : "no such step";
}

/* Bytes so that they stay on their line and can be told apart: plain where plain, else quoted with C's
 * escapes. */
static void put_text(struct buf *ret, const char *text, size_t len)
{
    bool plain = len > 0;
    for (size_t i = 0; i < len; i++) {
        plain = plain && text[i] > ' ' && text[i] < 0x7f && !strchr("\"\\,[]", text[i]);
    }
    if (plain) {
        buf_append(ret, text, len);
        return;
    }
    buf_putc(ret, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\n') {
            buf_puts(ret, "\\n");
        } else if (c == '"' || c == '\\') {
            buf_printf(ret, "\\%c", c);
        } else if (c < ' ' || c >= 0x7f) {
            buf_printf(ret, "\\x%02x", c);
        } else {
            buf_putc(ret, (char)c);
        }
    }
    buf_putc(ret, '"');
}

static void put_string(struct buf *ret, const struct jail_plan *plan, jail_ref ref)
{
    const char *text = jail_plan_string(plan, ref);
    put_text(ret, text, strlen(text));
}

static void put_bits(struct buf *ret, const struct bit_row *rows, size_t n_rows, uint64_t bits)
{
    for (size_t i = 0; i < n_rows; i++) {
        if (bits & rows[i].bit) {
            buf_printf(ret, " %s", rows[i].word);
        }
        bits &= ~rows[i].bit;
    }
    if (bits) {
        buf_printf(ret, " 0x%" PRIx64, bits);
    }
}

static void put_flags(struct buf *ret, uint32_t flags)
{
    put_bits(ret, flag_rows, ARRAY_SIZE(flag_rows), flags);
}

/* " [first, second]" for a run of strings. */
static void put_run(struct buf *ret, const struct jail_plan *plan, jail_ref ref, uint32_t count)
{
    buf_puts(ret, " [");
    for (uint32_t i = 0; i < count && ref < plan->arena_size; i++) {
        buf_puts(ret, i ? ", " : "");
        put_string(ret, plan, ref);
        ref += (jail_ref)strlen(jail_plan_string(plan, ref)) + 1;
    }
    buf_putc(ret, ']');
}

static void put_file(struct buf *ret, const struct jail_plan *plan, const struct jail_step *step)
{
    put_string(ret, plan, step->file.path);
    buf_printf(ret, " mode %04o, %" PRIu64 " bytes", step->file.mode, step->file.size_bytes);
    if (step->file.from_input) {
        buf_printf(ret, " from the input at %" PRIu64, step->file.offset);
        return;
    }
    uint32_t room = step->file.content < plan->arena_size ? plan->arena_size - step->file.content : 0;
    uint64_t size = step->file.size_bytes < room ? step->file.size_bytes : room;
    if (size > 0) {
        buf_putc(ret, ' ');
        put_text(ret, (const char *)plan->arena + step->file.content,
                 size < CONTENT_SHOWN ? size : CONTENT_SHOWN);
        buf_puts(ret, size > CONTENT_SHOWN ? "..." : "");
    }
}

static void put_rlimit(struct buf *ret, const struct jail_step *step)
{
    if (step->rlimit.resource < ARRAY_SIZE(rlimit_words)) {
        buf_puts(ret, rlimit_words[step->rlimit.resource]);
    } else {
        buf_printf(ret, "%" PRIu32, step->rlimit.resource);
    }
    /* As step_RLIMIT() has it, which says why. */
    bool no_core = step->rlimit.resource == RLIMIT_CORE && step->rlimit.hard == 0;
    const uint64_t values[] = {no_core ? 1 : step->rlimit.soft, no_core ? 1 : step->rlimit.hard};
    static const char *const words[] = {"soft", "hard"};
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        if (values[i] == UINT64_MAX) {
            buf_printf(ret, " %s unlimited", words[i]);
        } else {
            buf_printf(ret, " %s %" PRIu64, words[i], values[i]);
        }
    }
    buf_puts(ret, no_core ? ", no core at all" : "");
}

static void put_capabilities(struct buf *ret, uint64_t keep)
{
    if (keep == 0) {
        buf_puts(ret, "keep none");
        return;
    }
    buf_puts(ret, "keep");
    for (unsigned i = 0; i < 64; i++) {
        if (keep >> i & 1) {
            const char *name = capability_name(i);
            if (name) {
                buf_printf(ret, " %s", name);
            } else {
                buf_printf(ret, " %u", i);
            }
        }
    }
}

/* From `source` at `path`, with restrictions. */
static void put_attach(struct buf *ret, const struct jail_plan *plan, jail_ref source, jail_ref path,
                       uint32_t flags)
{
    put_string(ret, plan, source);
    buf_puts(ret, " at ");
    put_string(ret, plan, path);
    put_flags(ret, flags);
}

static void put_exec(struct buf *ret, const struct jail_plan *plan, const struct jail_step *step)
{
    put_string(ret, plan, step->exec.path);
    buf_puts(ret, " argv");
    put_run(ret, plan, step->exec.argv, step->exec.argc);
    buf_puts(ret, " environment");
    put_run(ret, plan, step->exec.envp, step->exec.envc);
}

static void put_speculation(struct buf *ret, const struct jail_step *step)
{
    static const char *const words[] = {
        [JAIL_SPECULATION_IF_OFFERED] = "if offered", [JAIL_SPECULATION_INSIST] = "or no job"};
    const struct {
        const char *what;
        enum jail_speculation how;
    } rows[] = {{"no store bypass", step->speculation.store_bypass},
                {"no indirect branches of others", step->speculation.indirect_branch},
                {"no core shared with others", step->speculation.core_sharing}};
    const char *between = "";
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (rows[i].how != JAIL_SPECULATION_LEAVE && rows[i].how < ARRAY_SIZE(words)) {
            buf_printf(ret, "%s%s %s", between, rows[i].what, words[rows[i].how]);
            between = ", ";
        }
    }
}

static void put_content(struct buf *ret, const struct jail_plan *plan, const struct jail_step *step)
{
    switch (step->kind) {
    case JAIL_STEP_IDENTITY:
        buf_printf(ret, "uid %" PRIu32 " gid %" PRIu32, step->identity.uid, step->identity.gid);
        break;
    case JAIL_STEP_HOSTNAME:
        put_string(ret, plan, step->hostname.name);
        break;
    case JAIL_STEP_ROOT:
        buf_printf(ret, "%" PRIu64 " bytes, %" PRIu64 " inodes", step->root.size_bytes, step->root.inodes);
        break;
    case JAIL_STEP_MKDIR:
        put_string(ret, plan, step->mkdir.path);
        buf_printf(ret, " mode %04o", step->mkdir.mode);
        break;
    case JAIL_STEP_FILE:
        put_file(ret, plan, step);
        break;
    case JAIL_STEP_SYMLINK:
        put_string(ret, plan, step->symlink.path);
        buf_puts(ret, " to ");
        put_string(ret, plan, step->symlink.target);
        break;
    case JAIL_STEP_BIND:
        put_attach(ret, plan, step->bind.source, step->bind.path, step->bind.flags);
        buf_puts(ret, step->bind.given ? " given" : "");
        break;
    case JAIL_STEP_SESSION:
        buf_puts(ret, step->session.terminal ? "with a terminal" : "");
        break;
    case JAIL_STEP_TMPFS:
        put_string(ret, plan, step->tmpfs.path);
        buf_printf(ret, " mode %04o, %" PRIu64 " bytes, %" PRIu64 " inodes", step->tmpfs.mode,
                   step->tmpfs.size_bytes, step->tmpfs.inodes);
        put_flags(ret, step->tmpfs.flags);
        break;
    case JAIL_STEP_PROC:
        put_string(ret, plan, step->proc.path);
        put_flags(ret, step->proc.flags);
        break;
    case JAIL_STEP_SCRATCH:
        put_string(ret, plan, step->scratch.path);
        put_flags(ret, step->scratch.flags);
        break;
    case JAIL_STEP_SUBMOUNT:
        put_attach(ret, plan, step->submount.source, step->submount.path, step->submount.flags);
        break;
    case JAIL_STEP_WORKSPACE:
        put_string(ret, plan, step->workspace.path);
        put_flags(ret, step->workspace.flags);
        break;
    case JAIL_STEP_IMAGE:
        buf_puts(ret, "by way of ");
        put_string(ret, plan, step->image.path);
        break;
    case JAIL_STEP_CAPABILITIES:
        put_capabilities(ret, step->capabilities.keep);
        break;
    case JAIL_STEP_UMASK:
        buf_printf(ret, "%04o", step->umask.mask);
        break;
    case JAIL_STEP_WORKDIR:
        put_string(ret, plan, step->workdir.path);
        break;
    case JAIL_STEP_RLIMIT:
        put_rlimit(ret, step);
        break;
    case JAIL_STEP_SPECULATION:
        put_speculation(ret, step);
        break;
    case JAIL_STEP_LANDLOCK:
        buf_printf(ret, "version %" PRIu32 ", writes below", step->landlock.abi);
        put_run(ret, plan, step->landlock.writable, step->landlock.n_writable);
        buf_puts(ret, ", devices");
        put_run(ret, plan, step->landlock.devices, step->landlock.n_devices);
        break;
    case JAIL_STEP_SECCOMP:
        buf_printf(ret, "%" PRIu32 " instructions%s", step->seccomp.length,
                   step->seccomp.notify ? ", denials are reported" : "");
        if (step->seccomp.locks) {
            buf_printf(ret, ", at most %" PRIu32 " file locks", step->seccomp.file_locks);
        }
        break;
    case JAIL_STEP_EXEC:
    case JAIL_STEP_RUN:
        put_exec(ret, plan, step);
        break;
    default:
        break;
    }
}

static void put_limit(struct buf *ret, const char *word, uint64_t value, const char *unit)
{
    if (value) {
        buf_printf(ret, "%s %" PRIu64 "%s", word, value, unit);
    }
}

static void put_limits(struct buf *ret, const struct jail_limits *limits)
{
    buf_puts(ret, "limits");
    put_limit(ret, " memory", limits->memory_bytes, " bytes,");
    put_limit(ret, " pids", limits->pids, ",");
    put_limit(ret, " cpu", limits->cpu_percent, " %,");
    put_limit(ret, " cpu time", limits->cpu_ms, " ms,");
    put_limit(ret, " timeout", limits->timeout_ms, " ms,");
    put_limit(ret, " scratch", limits->scratch_bytes, " bytes,");
    put_limit(ret, " scratch", limits->scratch_inodes, " inodes,");
    if (!ret->failed && ret->data[ret->len - 1] == ',') {
        ret->data[--ret->len] = '\0';
    } else {
        buf_puts(ret, " none");
    }
    buf_putc(ret, '\n');
}

void jail_plan_print(const struct jail_plan *plan, struct buf *ret)
{
    buf_puts(ret, "namespaces");
    put_bits(ret, namespace_rows, ARRAY_SIZE(namespace_rows), plan->namespaces);
    buf_putc(ret, '\n');
    put_limits(ret, &plan->limits);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        size_t before = ret->len;
        buf_printf(ret, "%3" PRIu32 " %s ", i + 1, jail_step_word(step->kind));
        put_content(ret, plan, step);
        while (!ret->failed && ret->len > before && ret->data[ret->len - 1] == ' ') {
            ret->data[--ret->len] = '\0';
        }
        buf_putc(ret, '\n');
    }
}

/* The one string that tells a step from others of its kind; "" where there is none. */
static const char *step_item(const struct jail_plan *plan, const struct jail_step *step)
{
    const char *path = jail_step_path(plan, step);
    switch (step->kind) {
    case JAIL_STEP_HOSTNAME:
        return jail_plan_string(plan, step->hostname.name);
    case JAIL_STEP_WORKDIR:
        return jail_plan_string(plan, step->workdir.path);
    case JAIL_STEP_RLIMIT:
        return step->rlimit.resource < ARRAY_SIZE(rlimit_words) ? rlimit_words[step->rlimit.resource] : "";
    case JAIL_STEP_EXEC:
    case JAIL_STEP_RUN:
        return jail_plan_string(plan, step->exec.path);
    default:
        return path ? path : "";
    }
}

void jail_plan_describe_step(const struct jail_plan *plan, uint32_t index, char *ret, size_t size)
{
    if (index == JAIL_NO_STEP) {
        snprintf(ret, size, "step 0 (start)");
        return;
    }
    if (index >= plan->n_steps) {
        snprintf(ret, size, "step %" PRIu32, index + 1);
        return;
    }
    const struct jail_step *step = &plan->steps[index];
    const char *item = step_item(plan, step);
    snprintf(ret, size, "step %" PRIu32 " (%s%s%s)", index + 1, jail_step_word(step->kind), *item ? " " : "",
             item);
}
