/* sd_notify(3) in a few lines: one datagram to the socket that the environment names. Runs in the warden.
 * Nothing is reported back: a service manager that does not listen is no reason to fail. */
#include "server/host/notify.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/io.h"

#define NS_PER_US 1000

void notify_service_manager(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof address.sun_path) {
        return;
    }
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@') {
        address.sun_path[0] = '\0'; /* the abstract namespace */
    }
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address, size);
}

uint64_t notify_watchdog_ns(void)
{
    const char *usec_text = getenv("WATCHDOG_USEC"), *pid_text = getenv("WATCHDOG_PID");
    uint64_t usec = 0, pid = (uint64_t)getpid();
    bool ours = !pid_text || (io_parse_u64(pid_text, &pid) == 0 && pid == (uint64_t)getpid());
    bool sound = usec_text && io_parse_u64(usec_text, &usec) == 0 && usec <= UINT64_MAX / NS_PER_US;
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return ours && sound ? usec * NS_PER_US : 0;
}
