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

#include "config/policy_file.h"
#include "config/shipped.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/compiled.h"
#include "policy/policy.h"
#include "policy/seccomp.h"

#define INSTRUCTIONS_PER_LINE 3u
#define ENTRIES_PER_LINE      6u
#define BYTES_PER_LINE        20u

/* What stands before item `i` of an array. */
static const char *separator(size_t i, size_t per_line)
{
    return i % per_line ? " " : "\n    ";
}

static void put_packed(const char *id, const struct buf *packed)
{
    printf("static const unsigned char packed_%s[] = {", id);
    for (size_t i = 0; i < packed->len; i++) {
        printf("%s%u,", separator(i, BYTES_PER_LINE), (unsigned char)packed->data[i]);
    }
    printf("\n};\n\n");
}

static void put_filter(const char *id, const struct policy_filter *filter)
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
        printf("%s{%d, %d, %" PRIu32 "},", separator(i, ENTRIES_PER_LINE), entry->nr, entry->direct,
               entry->rule);
    }
    printf("\n};\n\n");
}

static void put_row(const char *name, const struct policy *policy)
{
    const struct policy_filter *filter = &policy->filter;
    const char *id = policy_sha256(policy);
    printf("    {\"%s\", \"%s\", packed_%s, sizeof packed_%s, 0x%08" PRIx32 ",\n"
           "     {instructions_%s, %" PRIu32 ", %d, entries_%s, %zu}},\n",
           name, id, id, id, policy_native_arch(), id, filter->length, filter->notify, id, filter->n_entries);
}

/* `ret_packed` may be NULL. */
static int compile(const struct shipped_file *file, struct policy **ret, struct buf *ret_packed)
{
    struct policy_spec *spec = NULL;
    struct err err = {0};
    int r = policy_spec_decode_text(file->name, file->data, file->size, &spec, &err);
    r = r < 0 ? r : policy_compile(spec, ret, &err);
    if (r == 0 && ret_packed) {
        r = policy_spec_pack_text(file->name, file->data, file->size, ret_packed, &err);
    }
    if (r < 0) {
        fprintf(stderr, "embed: %s: %s\n", err.item, err.text);
    }
    return r;
}

int main(void)
{
    printf("/* Written by policy/embed/embed.c. */\n#include \"policy/embedded.h\"\n\n"
           "#include <linux/filter.h>\n\n");
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        struct policy *policy = NULL;
        CLEANUP(buf_free) struct buf packed = BUF_INIT;
        if (compile(file, &policy, &packed) < 0) {
            return EXIT_FAILURE;
        }
        put_packed(policy_sha256(policy), &packed);
        put_filter(policy_sha256(policy), &policy->filter);
        policy_free(policy);
    }
    printf("const struct embedded_policy policy_embedded[] = {\n");
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        struct policy *policy = NULL;
        if (compile(file, &policy, NULL) < 0) {
            return EXIT_FAILURE;
        }
        put_row(file->name, policy);
        policy_free(policy);
    }
    printf("    {.name = NULL},\n};\n");
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
