/* policy/embed/embed.c: the policies that the program carries are what their texts come to here and now.
 * Linked with the table that the program is linked with. */
#include "policy/embedded.h"

#include <linux/filter.h>

#include "tests/unit/policy/helper.h"

#include "config/digest.h"
#include "config/shipped.h"
#include "policy/compiled.h"
#include "policy/seccomp.h"

static const struct embedded_policy *find(const char *sha256)
{
    for (const struct embedded_policy *row = policy_embedded; row->name; row++) {
        if (strcmp(row->sha256, sha256) == 0) {
            return row;
        }
    }
    return NULL;
}

static void test_every_shipped_policy_is_its_text(void **state)
{
    (void)state;
    const struct embedded_policy *row = policy_embedded;
    for (const struct shipped_file *file = shipped_policies(); file->name; file++, row++) {
        assert_string_equal(row->name, file->name);
        char sha256[SHA256_HEX];
        sha256_hex_of(file->data, file->size, sha256);
        assert_string_equal(row->sha256, sha256);
        CLEANUP(buf_free) struct buf packed = BUF_INIT;
        assert_int_equal(policy_spec_pack_text(file->name, file->data, file->size, &packed, NULL), 0);
        assert_int_equal(row->packed_size, packed.len);
        assert_memory_equal(row->packed, packed.data, packed.len);
    }
    assert_null(row->name);
}

/* By its name a policy comes from the table, by its text it does not. */
static void test_both_ways_to_a_shipped_policy_end_in_one_plan(void **state)
{
    (void)state;
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        CLEANUP(policy_freep) struct policy *named = NULL;
        assert_int_equal(policy_resolve(file->name, &named, NULL), 0);
        CLEANUP(policy_freep) struct policy *read = NULL;
        struct policy_spec *spec = NULL;
        const char *origin = policy_spec(named)->origin;
        assert_int_equal(policy_spec_decode_text(origin, file->data, file->size, &spec, NULL), 0);
        assert_int_equal(policy_compile(spec, &read, NULL), 0);
        assert_string_equal(policy_sha256(named), policy_sha256(read));
        CLEANUP(buf_free) struct buf of_named = BUF_INIT;
        CLEANUP(buf_free) struct buf of_read = BUF_INIT;
        assert_int_equal(policy_explain(named, &of_named, NULL), 0);
        assert_int_equal(policy_explain(read, &of_read, NULL), 0);
        assert_string_equal(of_named.data, of_read.data);
    }
}

/* Not the table's again: a comment more, and the filter is made of the rules. */
static void test_every_shipped_policy_has_its_filter(void **state)
{
    (void)state;
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        CLEANUP(policy_freep) struct policy *policy = NULL;
        assert_int_equal(policy_resolve(file->name, &policy, NULL), 0);
        const struct embedded_policy *row = find(policy_sha256(policy));
        assert_non_null(row);
        assert_int_equal(row->arch, policy_native_arch());

        CLEANUP(buf_free) struct buf text = BUF_INIT;
        buf_append(&text, file->data, file->size);
        buf_puts(&text, "# changed\n");
        CLEANUP(policy_freep) struct policy *fresh = compile(text.data);
        assert_null(find(policy_sha256(fresh)));
        const struct policy_filter *filters[] = {&row->filter, &policy->filter};
        for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
            assert_int_equal(filters[i]->length, fresh->filter.length);
            assert_memory_equal(filters[i]->instructions, fresh->filter.instructions,
                                fresh->filter.length * sizeof *fresh->filter.instructions);
            assert_int_equal(filters[i]->notify, fresh->filter.notify);
            assert_int_equal(filters[i]->n_entries, fresh->filter.n_entries);
            for (size_t n = 0; n < fresh->filter.n_entries; n++) {
                assert_int_equal(filters[i]->entries[n].nr, fresh->filter.entries[n].nr);
                assert_int_equal(filters[i]->entries[n].direct, fresh->filter.entries[n].direct);
                assert_int_equal(filters[i]->entries[n].rule, fresh->filter.entries[n].rule);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shipped_policy_is_its_text),
        cmocka_unit_test(test_both_ways_to_a_shipped_policy_end_in_one_plan),
        cmocka_unit_test(test_every_shipped_policy_has_its_filter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
