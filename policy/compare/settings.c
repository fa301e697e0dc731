/* What two policies say differently beside their filters: mounts, variables, limits, and single fields. By
 * meaning: the order of lists that are none, and defaults that are written out, are no difference. Runs on
 * the command line. */
#include <errno.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "config/format/digest.h"
#include "config/message/egress.h"
#include "config/policy/constants.h"
#include "config/policy/policy_file.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "policy/compare/compare_internal.h"
#include "policy/compiled.h"
#include "policy/env.h"
#include "policy/policy.h"

/* What would make two words of one, or be taken for a quoted one. */
#define NOT_IN_WORDS " \""

struct settings {
    const struct policy_spec *a, *b;
    struct policy_differences *differences;
};

/* A row where the two differ; NULL: the policy has none. */
static int hold(const struct settings *settings, enum policy_section section, const char *name, const char *a,
                const char *b)
{
    if (a == b || (a && b && strcmp(a, b) == 0)) {
        return 0;
    }
    /* Copied, never written. */
    const struct policy_difference row = {
        .section = section, .name = (char *)name, .a = (char *)a, .b = (char *)b};
    return differences_add(settings->differences, &row);
}

static int hold_bufs(const struct settings *settings, enum policy_section section, const char *name,
                     const struct buf *a, const struct buf *b)
{
    return a->failed || b->failed ? -ENOMEM : hold(settings, section, name, a->data, b->data);
}

/* ---- Mounts ---- */

static const struct policy_mount *find_mount(const struct policy_spec *spec, const char *destination)
{
    for (size_t i = 0; i < spec->n_mounts; i++) {
        if (strcmp(spec->mounts[i].destination, destination) == 0) {
            return &spec->mounts[i];
        }
    }
    return NULL;
}

static void put_kind(const struct policy_mount *mount, struct buf *ret)
{
    char sha256[SHA256_HEX];
    switch (mount->kind) {
    case POLICY_MOUNT_BIND:
        buf_puts(ret, "bind ");
        policy_put_text(mount->source, NOT_IN_WORDS, ret);
        buf_printf(ret, "%s%s", mount->recursive ? "" : " recursive: false",
                   mount->allow_devices ? " allow_devices" : "");
        break;
    case POLICY_MOUNT_TMPFS:
        buf_printf(ret, "tmpfs size_bytes=%" PRIu64 " inodes=%" PRIu64 " mode=%04" PRIo32, mount->size_bytes,
                   mount->inodes, mount->mode);
        break;
    case POLICY_MOUNT_PROC:
        buf_printf(ret, "proc%s%s", mount->subset_pid ? " subset_pid" : "", mount->hidepid ? " hidepid" : "");
        break;
    case POLICY_MOUNT_SYMLINK:
        buf_puts(ret, "symlink to ");
        policy_put_text(mount->source, NOT_IN_WORDS, ret);
        break;
    case POLICY_MOUNT_FILE:
        sha256_hex_of(mount->content, mount->content_size, sha256);
        buf_printf(ret, "file mode=%04" PRIo32 ", %zu bytes (sha256 %s)", mount->mode, mount->content_size,
                   sha256);
        break;
    case POLICY_MOUNT_SCRATCH:
        buf_printf(ret, "scratch %s", mount->source);
        break;
    }
}

static void put_mount(const struct policy_mount *mount, struct buf *ret)
{
    bool may_write = mount->kind == POLICY_MOUNT_BIND || mount->kind == POLICY_MOUNT_TMPFS;
    put_kind(mount, ret);
    buf_puts(ret, may_write ? mount->read_only ? " read_only" : " writable" : "");
    buf_puts(ret, mount->no_exec ? " no_exec" : "");
    buf_puts(ret, mount->optional ? " optional" : "");
}

static int compare_mount(const struct settings *settings, const char *destination)
{
    CLEANUP(buf_free) struct buf a = BUF_INIT;
    CLEANUP(buf_free) struct buf b = BUF_INIT;
    const struct policy_mount *of_a = find_mount(settings->a, destination);
    const struct policy_mount *of_b = find_mount(settings->b, destination);
    if (of_a) {
        put_mount(of_a, &a);
    }
    if (of_b) {
        put_mount(of_b, &b);
    }
    return hold_bufs(settings, POLICY_SECTION_MOUNTS, destination, &a, &b);
}

static int compare_mounts(const struct settings *settings)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < settings->a->n_mounts; i++) {
        r = compare_mount(settings, settings->a->mounts[i].destination);
    }
    for (size_t i = 0; r == 0 && i < settings->b->n_mounts; i++) {
        const char *destination = settings->b->mounts[i].destination;
        r = find_mount(settings->a, destination) ? 0 : compare_mount(settings, destination);
    }
    return r;
}

/* ---- Hosts ---- */

static const struct egress_rule *find_host(const struct policy_spec *spec, const struct egress_rule *like)
{
    for (size_t i = 0; i < spec->n_egress; i++) {
        if (strcmp(spec->egress[i].host, like->host) == 0 && spec->egress[i].port == like->port) {
            return &spec->egress[i];
        }
    }
    return NULL;
}

static int compare_host(const struct settings *settings, const struct egress_rule *like)
{
    CLEANUP(buf_free) struct buf a = BUF_INIT;
    CLEANUP(buf_free) struct buf b = BUF_INIT;
    const struct egress_rule *of_a = find_host(settings->a, like), *of_b = find_host(settings->b, like);
    if (of_a) {
        egress_rule_print(of_a, &a);
    }
    if (of_b) {
        egress_rule_print(of_b, &b);
    }
    return hold_bufs(settings, POLICY_SECTION_OTHER, "egress", &a, &b);
}

static int compare_hosts(const struct settings *settings)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < settings->a->n_egress; i++) {
        r = compare_host(settings, &settings->a->egress[i]);
    }
    for (size_t i = 0; r == 0 && i < settings->b->n_egress; i++) {
        const struct egress_rule *rule = &settings->b->egress[i];
        r = find_host(settings->a, rule) ? 0 : compare_host(settings, rule);
    }
    return r;
}

/* ---- Variables ---- */

static const char *find_env(const struct policy_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->n_env; i++) {
        if (strcmp(spec->env[i].name, name) == 0) {
            return spec->env[i].value;
        }
    }
    return NULL;
}

/* Whether requests may set all that the pattern allows. */
static bool covers(const struct policy_spec *spec, const char *pattern)
{
    size_t length = strlen(pattern);
    if (length == 0 || pattern[length - 1] != '*') {
        return env_allowed(spec, pattern);
    }
    for (size_t i = 0; i < spec->n_env_allow; i++) {
        size_t own = strlen(spec->env_allow[i]);
        if (own > 0 && own <= length && spec->env_allow[i][own - 1] == '*' &&
            strncmp(spec->env_allow[i], pattern, own - 1) == 0) {
            return true;
        }
    }
    return false;
}

static int compare_allowed(const struct settings *settings, const struct policy_spec *from)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < from->n_env_allow; i++) {
        char name[300];
        const char *pattern = from->env_allow[i];
        snprintf(name, sizeof name, "env_allow %s", pattern);
        r = hold(settings, POLICY_SECTION_ENVIRONMENT, name,
                 from == settings->a || covers(settings->a, pattern) ? "allowed" : NULL,
                 from == settings->b || covers(settings->b, pattern) ? "allowed" : NULL);
    }
    return r;
}

static int compare_environment(const struct settings *settings)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < settings->a->n_env; i++) {
        const struct policy_env *env = &settings->a->env[i];
        r = hold(settings, POLICY_SECTION_ENVIRONMENT, env->name, env->value,
                 find_env(settings->b, env->name));
    }
    for (size_t i = 0; r == 0 && i < settings->b->n_env; i++) {
        const struct policy_env *env = &settings->b->env[i];
        r = find_env(settings->a, env->name)
                ? 0
                : hold(settings, POLICY_SECTION_ENVIRONMENT, env->name, NULL, env->value);
    }
    r = r < 0 ? r : compare_allowed(settings, settings->a);
    return r < 0 ? r : compare_allowed(settings, settings->b);
}

/* ---- Limits ---- */

static int hold_numbers(const struct settings *settings, enum policy_section section, const char *name,
                        const char *format, uint64_t a, uint64_t b)
{
    CLEANUP(buf_free) struct buf of_a = BUF_INIT;
    CLEANUP(buf_free) struct buf of_b = BUF_INIT;
    bool octal = strcmp(format, "octal") == 0;
    buf_printf(&of_a, octal ? "%04" PRIo64 : "%" PRIu64, a);
    buf_printf(&of_b, octal ? "%04" PRIo64 : "%" PRIu64, b);
    return hold_bufs(settings, section, name, &of_a, &of_b);
}

/* File locks count only where the filter has them counted. */
static int compare_limits(const struct settings *settings, bool locks_a, bool locks_b)
{
    const struct policy_limits *a = &settings->a->limits, *b = &settings->b->limits;
    const struct {
        const char *name;
        uint64_t a, b;
    } rows[] = {
#define LIMIT(field) {#field, a->field, b->field}
        LIMIT(memory_bytes),
        LIMIT(pids),
        LIMIT(cpu_percent),
        LIMIT(cpu_ms),
        LIMIT(timeout_ms),
        LIMIT(scratch_bytes),
        LIMIT(scratch_inodes),
        LIMIT(output_bytes),
        LIMIT(output_files),
        LIMIT(output_file_bytes),
#undef LIMIT
        {"file_locks", locks_a && locks_b ? a->file_locks : 0, locks_a && locks_b ? b->file_locks : 0},
    };
    int r = hold(settings, POLICY_SECTION_LIMITS, "address_space", a->address_space ? "true" : "false",
                 b->address_space ? "true" : "false");
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++) {
        r = hold_numbers(settings, POLICY_SECTION_LIMITS, rows[i].name, "decimal", rows[i].a, rows[i].b);
    }
    return r;
}

static void put_rlimit(uint64_t value, struct buf *ret)
{
    if (value == UINT64_MAX) {
        buf_puts(ret, "unlimited");
    } else {
        buf_printf(ret, "%" PRIu64, value);
    }
}

static void put_rlimits(const struct policy *policy, uint32_t resource, struct buf *ret)
{
    uint64_t soft, hard;
    if (policy_rlimit(policy, resource, &soft, &hard)) {
        put_rlimit(soft, ret);
        buf_puts(ret, soft == hard ? "" : " (hard ");
        if (soft != hard) {
            put_rlimit(hard, ret);
            buf_putc(ret, ')');
        }
    }
}

static int compare_rlimits(const struct settings *settings, const struct policy *a, const struct policy *b)
{
    int r = 0;
    for (uint32_t resource = 0; r == 0 && resource < RLIM_NLIMITS; resource++) {
        CLEANUP(buf_free) struct buf of_a = BUF_INIT;
        CLEANUP(buf_free) struct buf of_b = BUF_INIT;
        put_rlimits(a, resource, &of_a);
        put_rlimits(b, resource, &of_b);
        const char *name = constant_name("resource", resource);
        r = hold_bufs(settings, POLICY_SECTION_LIMITS, name ? name : "RLIMIT", &of_a, &of_b);
    }
    return r;
}

/* ---- Single fields ---- */

static bool is_among(const char *text, char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(texts[i], text) == 0) {
            return true;
        }
    }
    return false;
}

struct list {
    char *const *texts;
    size_t n;
};

/* Those of `list` that `other` has not; nothing where there are none. */
static void put_others(struct list list, struct list other, struct buf *ret)
{
    for (size_t i = 0; i < list.n; i++) {
        if (!is_among(list.texts[i], other.texts, other.n) && !is_among(list.texts[i], list.texts, i)) {
            buf_puts(ret, ret->len > 0 ? " " : "");
            policy_put_text(list.texts[i], NOT_IN_WORDS, ret);
        }
    }
}

/* Of each what the other has not; their order makes no difference. */
static int hold_lists(const struct settings *settings, const char *name, struct list a, struct list b)
{
    CLEANUP(buf_free) struct buf of_a = BUF_INIT;
    CLEANUP(buf_free) struct buf of_b = BUF_INIT;
    put_others(a, b, &of_a);
    put_others(b, a, &of_b);
    return hold_bufs(settings, POLICY_SECTION_OTHER, name, &of_a, &of_b);
}

static void put_namespaces(uint64_t namespaces, struct buf *ret)
{
    static const struct {
        uint64_t bit;
        const char *name;
    } rows[] = {
        {CLONE_NEWUSER, "USER"}, {CLONE_NEWNS, "MOUNT"}, {CLONE_NEWPID, "PID"},       {CLONE_NEWNET, "NET"},
        {CLONE_NEWIPC, "IPC"},   {CLONE_NEWUTS, "UTS"},  {CLONE_NEWCGROUP, "CGROUP"}, {CLONE_NEWTIME, "TIME"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (namespaces & rows[i].bit) {
            buf_printf(ret, "%s%s", ret->len > 0 ? " " : "", rows[i].name);
        }
    }
}

static int compare_namespaces(const struct settings *settings)
{
    CLEANUP(buf_free) struct buf a = BUF_INIT;
    CLEANUP(buf_free) struct buf b = BUF_INIT;
    put_namespaces(settings->a->namespaces, &a);
    put_namespaces(settings->b->namespaces, &b);
    return hold_bufs(settings, POLICY_SECTION_OTHER, "namespace", &a, &b);
}

static const char *none_if_empty(const char *text)
{
    return text && *text ? text : NULL;
}

/* In the words of the schema. */
static int compare_texts(const struct settings *settings)
{
    static const char *const no_yes[] = {"false", "true"};
    static const char *const states[] = {"WORKSPACE", "KERNEL"};
    static const char *const approvals[] = {"NEVER", "ALWAYS", "FIRST_USE"};
    static const char *const speculations[] = {"LEAVE", "IF_OFFERED", "INSIST"};
    const struct policy_spec *a = settings->a, *b = settings->b;
    const struct {
        const char *name, *a, *b;
    } rows[] = {
        {"hostname", a->hostname, b->hostname},
        {"loopback", no_yes[a->loopback], no_yes[b->loopback]},
        {"working_directory", a->working_directory, b->working_directory},
        {"interpreter", none_if_empty(a->interpreter), none_if_empty(b->interpreter)},
        {"image", none_if_empty(a->image), none_if_empty(b->image)},
        {"state", states[a->state], states[b->state]},
        {"approval", approvals[a->approval], approvals[b->approval]},
        {"store_bypass", speculations[a->store_bypass], speculations[b->store_bypass]},
        {"indirect_branch", speculations[a->indirect_branch], speculations[b->indirect_branch]},
        {"core_sharing", speculations[a->core_sharing], speculations[b->core_sharing]},
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++) {
        r = hold(settings, POLICY_SECTION_OTHER, rows[i].name, rows[i].a, rows[i].b);
    }
    return r;
}

static int compare_fields(const struct settings *settings)
{
    const struct policy_spec *a = settings->a, *b = settings->b;
    int r = compare_texts(settings);
    r = r < 0 ? r : hold_numbers(settings, POLICY_SECTION_OTHER, "uid", "decimal", a->uid, b->uid);
    r = r < 0 ? r : hold_numbers(settings, POLICY_SECTION_OTHER, "gid", "decimal", a->gid, b->gid);
    r = r < 0 ? r : hold_numbers(settings, POLICY_SECTION_OTHER, "umask", "octal", a->umask, b->umask);
    r = r < 0 ? r : compare_namespaces(settings);
    const struct {
        const char *name;
        struct list a, b;
    } rows[] = {
        {"architecture", {a->architectures, a->n_architectures}, {b->architectures, b->n_architectures}},
        {"capability", {a->capabilities, a->n_capabilities}, {b->capabilities, b->n_capabilities}},
        {"images", {a->images, a->n_images}, {b->images, b->n_images}},
        {"preload", {a->preload, a->n_preload}, {b->preload, b->n_preload}},
    };
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++) {
        r = hold_lists(settings, rows[i].name, rows[i].a, rows[i].b);
    }
    return r;
}

int compare_settings(const struct policy *a, const struct policy *b, struct policy_differences *ret)
{
    const struct settings settings = {.a = a->spec, .b = b->spec, .differences = ret};
    int r = compare_mounts(&settings);
    r = r < 0 ? r : compare_hosts(&settings);
    r = r < 0 ? r : compare_environment(&settings);
    r = r < 0 ? r : compare_limits(&settings, a->filter.locks != 0, b->filter.locks != 0);
    r = r < 0 ? r : compare_rlimits(&settings, a, b);
    return r < 0 ? r : compare_fields(&settings);
}
