/* server/kit/sentence.c: every part of an error once. */
#include "server/kit/sentence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"

static const struct {
    struct err err;
    const char *sentence;
} cases[] = {
    {{.text = "no memory"}, "no memory"},
    {{.step = "step 7 (bind /usr)", .text = "Permission denied"}, "step 7 (bind /usr): Permission denied"},
    {{.item = "a.textproto:3:7", .text = "no such field"}, "a.textproto:3:7: no such field"},
    {{.item = "listen", .text = "cannot listen on x"}, "cannot listen on x"},
    {{.step = "step 1 (x)", .item = "y", .text = "z"}, "step 1 (x): y: z"},
    {{.text = ""}, ""},
};

static void test_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char sentence[SENTENCE_BYTES];
        sentence_of(&cases[i].err, sentence);
        assert_string_equal(sentence, cases[i].sentence);
    }
}

static void test_the_longest_fits(void **state)
{
    (void)state;
    struct err err = {.kind = ERR_CONFIG};
    char sentence[SENTENCE_BYTES];
    memset(err.step, 's', sizeof err.step - 1);
    memset(err.item, 'i', sizeof err.item - 1);
    memset(err.text, 't', sizeof err.text - 1);
    sentence_of(&err, sentence);
    assert_int_equal(strlen(sentence), sizeof err.step + sizeof err.item + sizeof err.text - 3 + 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_the_longest_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
