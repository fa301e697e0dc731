/* Lint of `use`: of two policies that are used, one sets what the other leaves at its default, and so gets
 * what its author never saw. Two that set it differently are refused (config/policy/policy_use.c). On the
 * command line alone. */
#include <stddef.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "policy/lint/lint_internal.h"

static const struct {
    const char *path;
    size_t offset, size;
} fields[] = {
#define FIELD(path, member)                                                                                  \
    {                                                                                                        \
        path, offsetof(struct policy_spec, member), sizeof(((struct policy_spec *)0)->member)                \
    }
    FIELD("uid", uid),
    FIELD("gid", gid),
    FIELD("umask", umask),
    FIELD("loopback", loopback),
    FIELD("state", state),
    FIELD("limits.memory_bytes", limits.memory_bytes),
    FIELD("limits.pids", limits.pids),
    FIELD("limits.cpu_percent", limits.cpu_percent),
    FIELD("limits.cpu_ms", limits.cpu_ms),
    FIELD("limits.scratch_bytes", limits.scratch_bytes),
    FIELD("limits.scratch_inodes", limits.scratch_inodes),
    FIELD("limits.output_bytes", limits.output_bytes),
    FIELD("limits.timeout_ms", limits.timeout_ms),
    FIELD("limits.output_files", limits.output_files),
    FIELD("limits.output_file_bytes", limits.output_file_bytes),
    FIELD("limits.address_space", limits.address_space),
    FIELD("limits.file_locks", limits.file_locks),
#undef FIELD
};

/* A file that is used, by itself; NULL: it cannot be read alone. The source knows its places. */
static struct policy_spec *read_used(struct lint *lint, const char *file, struct source *ret_source)
{
    struct policy_spec *spec = NULL;
    const struct buf *text = lint_text(lint, file);
    *ret_source = SOURCE_NAMED(file);
    return text && policy_spec_read(ret_source, text->data, text->len, &spec, NULL) == 0 ? spec : NULL;
}

/* Whoever uses a policy changes it on purpose. */
static bool uses(struct lint *lint, const char *file, const char *other)
{
    struct source source;
    struct policy_spec *spec = read_used(lint, file, &source);
    bool any = strcmp(file, other) == 0;
    for (size_t i = 0; spec && i < spec->n_files; i++) {
        any |= strcmp(spec->files[i], other) == 0;
    }
    policy_spec_free(spec);
    source_free(&source);
    return any;
}

static void check_used(struct lint *lint, const char *file, const struct policy_spec *used,
                       const struct source *source)
{
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        const char *value = (const char *)lint->spec + fields[i].offset;
        const struct source_position at = source_position(&lint->source, fields[i].path);
        bool same = memcmp(value, (const char *)used + fields[i].offset, fields[i].size) == 0;
        if (same || source_has(source, fields[i].path) || !source_has(&lint->source, fields[i].path) ||
            at.file == 0 || uses(lint, lint->source.files[at.file - 1], file)) {
            continue;
        }
        const struct lint_spot spot = lint_spot(fields[i].path, "%s", fields[i].path);
        lint_find(lint, LINT_USE_DEFAULT, &spot, "%s, which is used too, leaves this at another default",
                  file);
    }
}

void lint_check_use(struct lint *lint)
{
    for (size_t i = 0; i < lint->spec->n_files; i++) {
        struct source source;
        struct policy_spec *used = read_used(lint, lint->spec->files[i], &source);
        if (used && !used->part) {
            check_used(lint, lint->spec->files[i], used, &source);
        }
        policy_spec_free(used);
        source_free(&source);
    }
}
