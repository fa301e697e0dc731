/* Writes policy/embedded.h's table as C, for the shipped policies and this machine's architecture. Runs while
 * the program is built, and is made of the program's own code.
 *
 * Why: libseccomp takes about a millisecond to compile a filter, which is most of what `immure run` does
 * before the clone. A filter is used only for a policy file with the very bytes that it was compiled from. */
#include <inttypes.h>
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/policy_file.h"
#include "config/shipped.h"
#include "jail/base/err.h"
#include "policy/compiled.h"
#include "policy/policy.h"
#include "policy/seccomp.h"

#define PER_LINE 3u

static void put_instructions(const struct policy *policy)
{
    printf("static const struct sock_filter filter_%s[] = {", policy_sha256(policy));
    for (uint32_t i = 0; i < policy->filter.length; i++) {
        const struct sock_filter *insn = &policy->filter.instructions[i];
        printf("%s{0x%04x, %3u, %3u, 0x%08" PRIx32 "},", i % PER_LINE ? " " : "\n    ", insn->code, insn->jt,
               insn->jf, insn->k);
    }
    printf("\n};\n\n");
}

static int compile(const struct shipped_file *file, struct policy **ret)
{
    struct policy_spec *spec = NULL;
    struct err err = {0};
    int r = policy_spec_decode_text(file->name, file->data, file->size, &spec, &err);
    r = r < 0 ? r : policy_compile(spec, ret, &err);
    if (r < 0) {
        fprintf(stderr, "embed: %s: %s\n", err.item, err.text);
    }
    return r;
}

int main(void)
{
    printf("/* Written by policy/embed/embed.c. */\n#include \"policy/embedded.h\"\n\n#include "
           "<linux/filter.h>\n"
           "#include <stddef.h>\n\n");
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        struct policy *policy = NULL;
        if (compile(file, &policy) < 0) {
            return EXIT_FAILURE;
        }
        put_instructions(policy);
        policy_free(policy);
    }
    printf("const struct embedded_filter policy_embedded_filters[] = {\n");
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        struct policy *policy = NULL;
        if (compile(file, &policy) < 0) {
            return EXIT_FAILURE;
        }
        printf("    {\"%s\", 0x%08" PRIx32 ", %" PRIu32 ", filter_%s},\n", policy_sha256(policy),
               policy_native_arch(), policy->filter.length, policy_sha256(policy));
        policy_free(policy);
    }
    printf("    {.sha256 = NULL},\n};\n");
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
