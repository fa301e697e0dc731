/* policy/embed/embed.c: the policies that the program carries are what their texts come to here and now.
 * Linked with the table that the program is linked with. */
#include "policy/embedded.h"

#include <linux/filter.h>

#include "tests/unit/policy/helper.h"

#include "config/format/digest.h"
#include "config/shipped.h"
#include "policy/compiled.h"
#include "policy/filter/names.h"

static const struct embedded_policy *find(const char *sha256)
{
    for (const struct embedded_policy *row = policy_embedded; row->name; row++) {
        if (strcmp(row->spec.sha256, sha256) == 0) {
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
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        assert_int_equal(policy_show(file->name, true, &text, NULL), 0);
        sha256_hex_of(text.data, text.len, sha256);
        assert_string_equal(row->spec.sha256, sha256);
    }
    assert_null(row->name);
}

/* Reads the text of a policy that the program carries. */
static struct policy *read_text(const struct policy *carried, const char *more)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    const struct shipped_file *file = shipped_policy(policy_name(carried));
    buf_append(&text, file->data, file->size);
    buf_puts(&text, more);
    struct policy_spec *spec = NULL;
    struct policy *policy = NULL;
    assert_int_equal(policy_spec_decode_text(policy_spec(carried)->origin, text.data, text.len, &spec, NULL),
                     0);
    assert_int_equal(policy_compile(spec, &policy, NULL), 0);
    return policy;
}

static void assert_same_plan(const struct policy *a, const struct policy *b)
{
    static const struct job job = {0};
    static const struct policy_ceilings ceilings = {0};
    char *const argv[] = {(char[]){"true"}};
    const struct policy_program program = {.argv = argv, .n_argv = 1};
    const struct policy *policies[] = {a, b};
    struct buf bytes[2] = {BUF_INIT, BUF_INIT};
    for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
        CLEANUP(plan_freep) struct jail_plan *plan = NULL;
        assert_int_equal(policy_build_plan(policies[i], &ceilings, &job, &program, &plan, NULL), 0);
        assert_int_equal(jail_plan_encode(plan, &bytes[i]), 0);
    }
    assert_int_equal(bytes[0].len, bytes[1].len);
    assert_memory_equal(bytes[0].data, bytes[1].data, bytes[0].len);
    buf_free(&bytes[0]);
    buf_free(&bytes[1]);
}

/* By its name a policy comes from the table, by its text it does not. */
static void test_both_ways_to_a_shipped_policy_end_in_one(void **state)
{
    (void)state;
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        CLEANUP(policy_freep) struct policy *named = NULL;
        assert_int_equal(policy_resolve(file->name, &named, NULL), 0);
        CLEANUP(policy_freep) struct policy *read = read_text(named, "");
        assert_ptr_not_equal(policy_spec(named), policy_spec(read));
        assert_string_equal(policy_sha256(named), policy_sha256(read));
        assert_same_plan(named, read);
        struct buf texts[2] = {BUF_INIT, BUF_INIT};
        assert_int_equal(policy_explain(named, &texts[0], NULL), 0);
        assert_int_equal(policy_explain(read, &texts[1], NULL), 0);
        assert_string_equal(texts[0].data, texts[1].data);
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
            buf_free(&texts[i]);
        }
    }
}

/* The spec as the table's own words would be: what the two above do not look at shows here. */
static void test_every_field_of_a_spec_is_carried(void **state)
{
    (void)state;
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        CLEANUP(policy_freep) struct policy *named = NULL;
        assert_int_equal(policy_resolve(file->name, &named, NULL), 0);
        CLEANUP(policy_freep) struct policy *read = read_text(named, "");
        const struct policy_spec *a = policy_spec(named);
        const struct policy_spec *b = policy_spec(read);
        assert_memory_equal(&a->limits, &b->limits, sizeof a->limits);
        assert_int_equal(a->n_preload, b->n_preload);
        for (size_t i = 0; i < b->n_preload; i++) {
            assert_string_equal(a->preload[i], b->preload[i]);
        }
        assert_string_equal(a->image, b->image);
        assert_int_equal(a->n_images, b->n_images);
        assert_int_equal(a->n_rules, b->n_rules);
        for (size_t i = 0; i < b->n_rules; i++) {
            assert_int_equal(a->rules[i].n_conditions, b->rules[i].n_conditions);
            assert_string_equal(a->rules[i].reason ? a->rules[i].reason : "-",
                                b->rules[i].reason ? b->rules[i].reason : "-");
        }
        assert_int_equal(a->n_mounts, b->n_mounts);
        for (size_t i = 0; i < b->n_mounts; i++) {
            assert_string_equal(a->mounts[i].destination, b->mounts[i].destination);
            assert_int_equal(a->mounts[i].content_size, b->mounts[i].content_size);
            if (b->mounts[i].content_size > 0) {
                assert_memory_equal(a->mounts[i].content, b->mounts[i].content, b->mounts[i].content_size);
            }
        }
    }
}

/* Not the table's again: a line more, and the filter is made of the rules. */
static void test_every_shipped_policy_has_its_filter(void **state)
{
    (void)state;
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        CLEANUP(policy_freep) struct policy *policy = NULL;
        assert_int_equal(policy_resolve(file->name, &policy, NULL), 0);
        const struct embedded_policy *row = find(policy_sha256(policy));
        assert_non_null(row);
        assert_int_equal(row->arch, policy_native_arch());

        CLEANUP(policy_freep) struct policy *fresh = read_text(policy, "hostname: 'other'\n");
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
                assert_int_equal(filters[i]->entries[n].row, fresh->filter.entries[n].row);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shipped_policy_is_its_text),
        cmocka_unit_test(test_both_ways_to_a_shipped_policy_end_in_one),
        cmocka_unit_test(test_every_field_of_a_spec_is_carried),
        cmocka_unit_test(test_every_shipped_policy_has_its_filter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
