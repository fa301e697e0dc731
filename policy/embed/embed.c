/* Writes policy/embedded.h's table as C, for the shipped policies and this machine's architecture. Runs while
 * the program is built, and is made of the program's own code.
 *
 * Why: reading a policy's text, hashing it and having libseccomp compile its filter take more than a
 * millisecond, as much as making the jail. What is written here is what the program itself would have come
 * to, checks included; the text stays the source. A filter is used only for a policy file with the very bytes
 * that it was compiled from. */
#include <inttypes.h>
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/shipped.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"
#include "policy/compiled.h"
#include "policy/embed/spec_source.h"
#include "policy/filter/names.h"
#include "policy/policy.h"

#define INSTRUCTIONS_PER_LINE 3u
#define ENTRIES_PER_LINE      6u
#define BYTES_PER_LINE        20u

static void policy_freep(struct policy **policy)
{
    policy_free(*policy);
}

/* What stands before item `i` of an array. */
static const char *separator(size_t i, size_t per_line)
{
    return i % per_line ? " " : "\n    ";
}

static void put_filter(const struct policy_filter *filter, const char *id)
{
    printf("static struct sock_filter instructions_%s[] = {", id);
    for (uint32_t i = 0; i < filter->length; i++) {
        const struct sock_filter *insn = &filter->instructions[i];
        printf("%s{0x%04x, %3u, %3u, 0x%08" PRIx32 "},", separator(i, INSTRUCTIONS_PER_LINE), insn->code,
               insn->jt, insn->jf, insn->k);
    }
    printf("\n};\n\nstatic struct filter_entry entries_%s[] = {", id);
    for (size_t i = 0; i < filter->n_entries; i++) {
        const struct filter_entry *entry = &filter->entries[i];
        printf("%s{%d, %d, %" PRIu32 ", %" PRIu32 "},", separator(i, ENTRIES_PER_LINE), entry->nr,
               entry->direct, entry->rule, entry->row);
    }
    printf("\n    {0}};\n\n");
}

static int put_tree(const struct jail_plan *tree, const char *id)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    if (jail_plan_encode(tree, &bytes) < 0) {
        return -1;
    }
    printf("static const unsigned char tree_%s[] = {", id);
    for (size_t i = 0; i < bytes.len; i++) {
        printf("%s%u,", separator(i, BYTES_PER_LINE), (unsigned char)bytes.data[i]);
    }
    printf("\n};\n\n");
    return 0;
}

static void put_row(const struct policy *policy, const char *id)
{
    const struct policy_filter *filter = &policy->filter;
    printf("    {.name = \"%s\",\n.spec = ", policy_name(policy));
    spec_source_put(policy->spec);
    printf(",\n.arch = 0x%08" PRIx32 ", .filter = {instructions_%s, %" PRIu32 ", %d, %" PRIu32
           "u, entries_%s, %zu},\n"
           ".capabilities = %" PRIu64 "u, .bpf = %" PRIu32
           ", .tree = tree_%s, .tree_size = sizeof tree_%s},\n",
           policy_native_arch(), id, filter->length, filter->notify, filter->locks, id, filter->n_entries,
           policy->capabilities, policy->bpf, id, id);
}

static int put_each(bool rows)
{
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        CLEANUP(policy_freep) struct policy *policy = NULL;
        struct err err = {0};
        if (policy_resolve(file->name, &policy, &err) < 0) {
            fprintf(stderr, "embed: %s: %s\n", err.item, err.text);
            return -1;
        }
        if (policy->spec->n_egress > 0) {
            fprintf(stderr, "embed: %s: a shipped policy names no host\n", file->name);
            return -1;
        }
        if (rows) {
            put_row(policy, policy_sha256(policy));
            continue;
        }
        put_filter(&policy->filter, policy_sha256(policy));
        if (put_tree(policy->tree, policy_sha256(policy)) < 0) {
            return -1;
        }
    }
    return 0;
}

int main(void)
{
    printf("/* Written by policy/embed/embed.c. */\n#include \"policy/embedded.h\"\n\n"
           "#include <linux/filter.h>\n\n");
    if (put_each(false) < 0) {
        return EXIT_FAILURE;
    }
    printf("const struct embedded_policy policy_embedded[] = {\n");
    if (put_each(true) < 0) {
        return EXIT_FAILURE;
    }
    printf("    {.name = NULL},\n};\n");
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
