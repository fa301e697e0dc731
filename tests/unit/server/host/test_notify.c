/* server/host/notify.c: what a service manager is told, and what it asks for. */
#include "server/host/notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"

static void tells_a_socket_of_either_kind(void **state)
{
    (void)state;
    char directory[] = "/tmp/immure-notify-XXXXXX";
    assert_non_null(mkdtemp(directory));
    for (int abstract = 0; abstract < 2; abstract++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        char name[80], got[64] = "";
        CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        snprintf(name, sizeof name, abstract ? "@%s" : "%s/s", directory);
        memcpy(address.sun_path, name, strlen(name));
        address.sun_path[0] = abstract ? '\0' : name[0];
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
        assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
        setenv("NOTIFY_SOCKET", name, 1);
        notify_service_manager("RELOADING=1\nMONOTONIC_USEC=7");
        assert_int_equal(recv(fd, got, sizeof got - 1, MSG_DONTWAIT),
                         strlen("RELOADING=1\nMONOTONIC_USEC=7"));
        assert_string_equal(got, "RELOADING=1\nMONOTONIC_USEC=7");
        if (!abstract) {
            unlink(name);
        }
    }
    static const char *const bad[] = {"", "relative", "/nowhere/at/all"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        setenv("NOTIFY_SOCKET", bad[i], 1);
        notify_service_manager("READY=1"); /* nothing happens */
    }
    unsetenv("NOTIFY_SOCKET");
    notify_service_manager("READY=1");
    assert_int_equal(rmdir(directory), 0);
}

static void learns_how_often_it_is_to_give_a_sign_of_life(void **state)
{
    (void)state;
    char own[16];
    snprintf(own, sizeof own, "%d", (int)getpid());
    const struct {
        const char *usec, *pid;
        uint64_t ns;
    } rows[] = {
        {"30000000", NULL, 30 * NS_PER_S},
        {"30000000", own, 30 * NS_PER_S},
        {"1", own, 1000},
        {"30000000", "1", 0},
        {"30000000", "x", 0},
        {"30000000", "", 0},
        {NULL, own, 0},
        {"", NULL, 0},
        {"0", NULL, 0},
        {"-5", NULL, 0},
        {"30s", NULL, 0},
        {"18446744073709551615", NULL, 0},
        {"99999999999999999999999", NULL, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        unsetenv("WATCHDOG_PID");
        if (rows[i].usec) {
            setenv("WATCHDOG_USEC", rows[i].usec, 1);
        }
        if (rows[i].pid) {
            setenv("WATCHDOG_PID", rows[i].pid, 1);
        }
        assert_true(notify_watchdog_ns() == rows[i].ns);
        assert_null(getenv("WATCHDOG_USEC"));
        assert_null(getenv("WATCHDOG_PID"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_a_socket_of_either_kind),
        cmocka_unit_test(learns_how_often_it_is_to_give_a_sign_of_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
