/* config/format/digest.c against published vectors, and base64 against everything that is nearly right. */
#include "config/format/digest.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

static void test_sha256_vectors(void **state)
{
    (void)state;
    char hex[SHA256_HEX];
    sha256_hex_of("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256_hex_of("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    unsigned char raw[SHA256_BYTES];
    sha256_of("abc", 3, raw);
    assert_int_equal(raw[0], 0xba);
    assert_int_equal(raw[31], 0xad);
}

/* RFC 4231, cases 2 and 6. */
static void test_hmac_vectors(void **state)
{
    (void)state;
    static const char question[] = "what do ya want for nothing?",
                      long_key[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    char hex[SHA256_HEX], key[132];
    hmac_sha256_hex_of("Jefe", question, strlen(question), hex);
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key - 1);
    key[sizeof key - 1] = '\0';
    hmac_sha256_hex_of(key, long_key, strlen(long_key), hex);
    assert_string_equal(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void test_secure_equal(void **state)
{
    (void)state;
    assert_true(secure_equal("same", "same", 4));
    assert_false(secure_equal("same", "sama", 4));
    assert_false(secure_equal("same", "xame", 4));
    assert_true(secure_equal("a", "b", 0));
}

static void test_base64_vectors(void **state)
{
    (void)state;
    static const struct {
        const char *plain, *text;
    } vectors[] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xff\xfe\xfd", "//79"},
        {"\xfb\xef\xbe", "++++"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT, plain = BUF_INIT;
        assert_int_equal(base64_encode(vectors[i].plain, strlen(vectors[i].plain), &text), 0);
        assert_string_equal(text.data, vectors[i].text);
        assert_int_equal(base64_decode(text.data, text.len, &plain), 0);
        assert_int_equal(plain.len, strlen(vectors[i].plain));
        assert_string_equal(plain.data, vectors[i].plain);
    }
}

static void test_base64_refuses(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "Z",          "Zg",     "Zg=",   "Zg===",    "=",      "==",       "====", "Z===",
        "Zg==Zg==",   "Zm9v\n", "Zm 9v", "Zm9v====", "Zm-v",   "Zm_v",     "Zh==", "Zm9=",
        "\xc3\xa4==", "=Zg=",   "Zg=a",  "    ",     "Zm9vZg", "Zg==    ",
    };
    for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
        CLEANUP(buf_free) struct buf plain = BUF_INIT;
        assert_int_equal(buf_puts(&plain, "kept"), 0);
        if (base64_decode(broken[i], strlen(broken[i]), &plain) != -EINVAL) {
            fail_msg("accepted: %s", broken[i]);
        }
        assert_string_equal(plain.data, "kept");
        assert_int_equal(plain.len, 4);
    }
}

static void test_base64_appends_every_length(void **state)
{
    (void)state;
    unsigned char bytes[256];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 167);
    }
    for (size_t n = 0; n <= sizeof bytes; n++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT, plain = BUF_INIT;
        assert_int_equal(base64_encode(bytes, n, &text), 0);
        assert_int_equal(text.len, (n + 2) / 3 * 4);
        assert_int_equal(base64_decode(text.data, text.len, &plain), 0);
        assert_int_equal(plain.len, n);
        assert_true(n == 0 || memcmp(plain.data, bytes, n) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256_vectors), cmocka_unit_test(test_hmac_vectors),
        cmocka_unit_test(test_secure_equal),   cmocka_unit_test(test_base64_vectors),
        cmocka_unit_test(test_base64_refuses), cmocka_unit_test(test_base64_appends_every_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
