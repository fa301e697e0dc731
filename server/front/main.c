/* immure-front: the program that `immure serve` starts to speak HTTP. One of its own, so that it alone is
 * linked with libraries that take long to load: every `immure run` would wait for them. */
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>

#include "server/front/front.h"
#include "server/link/channel.h"

#define WRONG_USAGE 2 /* as of every command */

static bool is_socket(int fd, int option, int expected)
{
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == expected;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc != 1 || !is_socket(FRONT_CHANNEL_FD, SO_TYPE, SOCK_SEQPACKET) ||
        !is_socket(FRONT_LISTEN_FD, SO_ACCEPTCONN, 1)) {
        fputs("immure-front: started by `immure serve` only\n", stderr);
        return WRONG_USAGE;
    }
    return front_main(FRONT_CHANNEL_FD, FRONT_LISTEN_FD);
}
