/* policy/embed/embed.c: the filters that the program carries are those that its policies compile to here and
 * now. Linked with the table that the program is linked with. */
#include "policy/embedded.h"

#include <linux/filter.h>

#include "tests/unit/policy/helper.h"

#include "config/shipped.h"
#include "policy/compiled.h"
#include "policy/seccomp.h"

static const struct embedded_filter *find(const char *sha256)
{
    for (const struct embedded_filter *row = policy_embedded_filters; row->sha256; row++) {
        if (strcmp(row->sha256, sha256) == 0) {
            return row;
        }
    }
    return NULL;
}

static void test_every_shipped_policy_has_its_filter(void **state)
{
    (void)state;
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        CLEANUP(policy_freep) struct policy *policy = NULL;
        assert_int_equal(policy_resolve(file->name, &policy, NULL), 0);
        const struct embedded_filter *row = find(policy_sha256(policy));
        assert_non_null(row);
        assert_int_equal(row->arch, policy_native_arch());

        /* Not the table's again: straight from libseccomp. */
        struct policy_filter fresh = {.entries = policy->filter.entries,
                                      .n_entries = policy->filter.n_entries};
        assert_int_equal(seccomp_assemble(policy->spec, &fresh, NULL), 0);
        assert_int_equal(row->length, fresh.length);
        assert_memory_equal(row->instructions, fresh.instructions, fresh.length * sizeof *fresh.instructions);
        assert_int_equal(policy->filter.length, fresh.length);
        assert_memory_equal(policy->filter.instructions, fresh.instructions,
                            fresh.length * sizeof *fresh.instructions);
        free(fresh.instructions);
    }
}

/* One byte more, and the file is another policy. */
static void test_a_changed_policy_is_compiled(void **state)
{
    (void)state;
    const struct shipped_file *file = shipped_policy("strict");
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_append(&text, file->data, file->size);
    buf_puts(&text, "\n");
    CLEANUP(policy_freep) struct policy *changed = compile(text.data);
    assert_null(find(policy_sha256(changed)));
    assert_true(changed->filter.length > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shipped_policy_has_its_filter),
        cmocka_unit_test(test_a_changed_policy_is_compiled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
