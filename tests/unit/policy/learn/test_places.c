/* policy/learn/places.c: what is mounted for a path, and what never is. */
#include "policy/learn/places.h"

#include "tests/unit/policy/helper.h"
#include "tests/unit/policy/lint_text.h"

static void test_places(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        bool directory;
        const char *place; /* NULL: none */
    } rows[] = {
        {"/usr/lib/git-core/git-remote-http", false, "/usr/lib/git-core"},
        {"/usr/lib/x86_64-linux-gnu/blas/libblas.so.3", false, "/usr/lib/x86_64-linux-gnu"},
        {"/usr/lib/os-release", false, "/usr/lib/os-release"},
        {"/usr/bin/git", false, "/usr/bin"},
        {"/usr/include/c++/12/vector", false, "/usr/include"},
        {"/usr/local/lib/python3.11/dist-packages", true, "/usr/local/lib/python3.11"},
        {"/opt/tool/bin/tool", false, "/opt/tool"},
        {"/etc/gitconfig", false, "/etc/gitconfig"},
        {"/etc/java-17-openjdk/security/java.security", false, "/etc/java-17-openjdk"},
        {"/etc/ssl/certs/ca-certificates.crt", false, "/etc/ssl/certs"},
        {"/data/sets/a.csv", false, "/data/sets/a.csv"},
        {"/data/sets", true, "/data/sets"},
        {"/", true, NULL},
        {"/usr", true, NULL},
        {"/usr/lib", true, NULL},
        {"/usr/share", true, NULL},
        {"/etc", true, NULL},
        {"/etc/ssl", true, NULL},
        {"/var/lib", true, NULL},
        {"/tmp", true, NULL},
    };
    char place[PATH_MAX];
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (place_of(rows[i].path, rows[i].directory, place) != (rows[i].place != NULL)) {
            fail_msg("%s: %s", rows[i].path, place);
        }
        if (rows[i].place) {
            assert_string_equal(place, rows[i].place);
        }
    }
}

static void test_secrets(void **state)
{
    (void)state;
    static const char *const secret[] = {
        "/root/.bashrc",    "/home/a/x",          "/etc/shadow",     "/etc/ssl/private/a.pem",
        "/run/docker.sock", "/proc/meminfo",      "/sys/kernel",     "/dev/tty",
        "/srv/.env",        "/opt/a/.ssh/config", "/srv/id_rsa.pub", "/data/x.sock",
        "/etc/passwd",
    };
    static const char *const open[] = {"/usr/bin/ssh",
                                       "/etc/gitconfig",
                                       "/srv/a/environment",
                                       "/opt/secretary/x",
                                       "/usr/lib/python3.11/secrets.py",
                                       "/srv/botocore/credentials.py"};
    for (size_t i = 0; i < ARRAY_SIZE(secret); i++) {
        if (!place_secret(secret[i])) {
            fail_msg("%s may be shown", secret[i]);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(open); i++) {
        if (place_secret(open[i])) {
            fail_msg("%s: %s", open[i], place_secret(open[i]));
        }
    }
}

/* What may be mounted by the table of secrets gives lint nothing to say. */
static void test_lint_is_content(void **state)
{
    (void)state;
    static const char *const paths[] = {"/etc/gitconfig", "/etc/java/x", "/var/lib/texmf/a", "/opt/a/b",
                                        "/usr/lib/jvm/x"};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        char place[PATH_MAX], text[3 * PATH_MAX];
        CLEANUP(buf_free) struct buf findings = BUF_INIT;
        assert_null(place_secret(paths[i]));
        assert_true(place_of(paths[i], false, place));
        snprintf(
            text, sizeof text,
            "name: 'test' use: ['processes', 'scratch'] mount { destination: '%s' bind { source: '%s' } }",
            place, place);
        lint_text(text, &findings);
        if (findings.data && strstr(findings.data, "[host-secret]")) {
            fail_msg("%s", findings.data);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_lint_is_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
