/* server/launch/secrets.c: what holds secrets is known, whichever way it would be shown. */
#include "server/launch/secrets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"

static const char *shown_by(const char *path, const char *home)
{
    static char why[SECRETS_TEXT_BYTES];
    return secrets_shown_by(path, home, why);
}

static void test_the_hosts(void **state)
{
    (void)state;
    static const char *const secret[] = {"/etc/shadow",
                                         "/etc/ssh",
                                         "/etc/ssh/ssh_host_rsa_key",
                                         "/proc/self",
                                         "/dev/sda",
                                         "/run/docker.sock",
                                         "/var/run",
                                         "/var/lib/docker/x",
                                         "/home",
                                         "/",
                                         "/etc",
                                         "/root/.ssh",
                                         "/srv/alice/.ssh/id_rsa",
                                         "/home/alice/.aws",
                                         "/home/alice/.config/gcloud/x"};
    static const char *const harmless[] = {"/usr",
                                           "/usr/share",
                                           "/etc/hostname",
                                           "/home/alice/project",
                                           "/etc/shadows",
                                           "/home/alice/x.ssh",
                                           "/home/alice/.sshd",
                                           "/processes",
                                           "/nowhere/.config"};
    for (size_t i = 0; i < ARRAY_SIZE(secret); i++) {
        assert_non_null(shown_by(secret[i], NULL));
    }
    for (size_t i = 0; i < ARRAY_SIZE(harmless); i++) {
        if (shown_by(harmless[i], NULL)) {
            fail_msg("%s: %s", harmless[i], shown_by(harmless[i], NULL));
        }
    }
}

static void test_a_home(void **state)
{
    (void)state;
    char top[] = "/tmp/immure-secrets-XXXXXX", keys[64], project[64], address[sizeof(struct sockaddr_un)];
    assert_non_null(mkdtemp(top));
    snprintf(keys, sizeof keys, "%s/.ssh", top);
    snprintf(project, sizeof project, "%s/project", top);
    assert_int_equal(mkdir(project, 0700), 0);
    assert_null(shown_by(top, top));
    assert_int_equal(mkdir(keys, 0700), 0);
    assert_non_null(strstr(shown_by(top, NULL), "/.ssh in it, which holds keys"));
    assert_non_null(shown_by("/tmp", top));
    assert_null(shown_by(project, top));
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s/project/s", top);
    snprintf(address, sizeof address, "%s", name.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
    assert_non_null(strstr(shown_by(address, NULL), "it is a socket"));
    close(fd);
    unlink(address);
    rmdir(keys);
    rmdir(project);
    rmdir(top);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_hosts),
        cmocka_unit_test(test_a_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
