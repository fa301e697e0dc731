/* Loopback of a jail, and what listens on it, as its parent sees it. It is brought up by the parent: libnl
 * allocates, which the child must not.
 *
 * The socket was opened inside the jail's network namespace and stays bound to it. The kernel checks both who
 * opened it and who sends, and the parent owns the user namespace that the network namespace belongs to. */
#include "jail/resources/netns.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"

#define LOOPBACK_INDEX 1 /* the first interface of every network namespace */

static void socket_freep(struct nl_sock **sock)
{
    nl_socket_free(*sock);
}

static void msg_freep(struct nl_msg **msg)
{
    nlmsg_free(*msg);
}

static int fail(struct err *reterr, int nl_error, const char *what)
{
    return err_set(reterr, ERR_SETUP, EIO, NULL, "bringing lo up: %s: %s", what, nl_geterror(nl_error));
}

static int link_message(int type, struct nl_msg **ret)
{
    struct nl_msg *msg = nlmsg_alloc_simple(type, NLM_F_REQUEST | (type == RTM_NEWLINK ? NLM_F_ACK : 0));
    struct ifinfomsg info = {.ifi_family = AF_UNSPEC, .ifi_index = LOOPBACK_INDEX};
    if (type == RTM_NEWLINK) {
        info.ifi_flags = IFF_UP;
        info.ifi_change = IFF_UP;
    }
    if (!msg || nlmsg_append(msg, &info, sizeof info, NLMSG_ALIGNTO) < 0) {
        nlmsg_free(msg);
        return -NLE_NOMEM;
    }
    *ret = msg;
    return 0;
}

static int see_flags(struct nl_msg *msg, void *arg)
{
    struct nlmsghdr *header = nlmsg_hdr(msg);
    if (header->nlmsg_type == RTM_NEWLINK && nlmsg_datalen(header) >= (int)sizeof(struct ifinfomsg)) {
        const struct ifinfomsg *info = nlmsg_data(header);
        if (info->ifi_index == LOOPBACK_INDEX) {
            *(unsigned *)arg = info->ifi_flags;
        }
    }
    return NL_OK;
}

static int set_up(struct nl_sock *sock, struct err *reterr)
{
    CLEANUP(msg_freep) struct nl_msg *msg = NULL;
    int r = link_message(RTM_NEWLINK, &msg);
    if (r == 0) {
        r = nl_send_auto(sock, msg);
    }
    if (r >= 0) {
        r = nl_wait_for_ack(sock);
    }
    return r < 0 ? fail(reterr, r, "RTM_NEWLINK") : 0;
}

static int check_up(struct nl_sock *sock, struct err *reterr)
{
    unsigned flags = 0;
    nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, see_flags, &flags);
    CLEANUP(msg_freep) struct nl_msg *msg = NULL;
    int r = link_message(RTM_GETLINK, &msg);
    if (r == 0) {
        r = nl_send_auto(sock, msg);
    }
    if (r >= 0) {
        r = nl_recvmsgs_default(sock);
    }
    if (r < 0) {
        return fail(reterr, r, "RTM_GETLINK");
    }
    return flags & IFF_UP ? 0 : err_set(reterr, ERR_SETUP, EIO, NULL, "bringing lo up: it stayed down");
}

int netns_loopback_up(int netlink_fd, struct err *reterr)
{
    CLEANUP(fd_closep) int fd = netlink_fd;
    CLEANUP(socket_freep) struct nl_sock *sock = nl_socket_alloc();
    if (!sock) {
        return err_errno(reterr, ENOMEM, "bringing lo up");
    }
    int r = nl_socket_set_fd(sock, NETLINK_ROUTE, fd);
    if (r < 0) {
        return fail(reterr, r, "nl_socket_set_fd");
    }
    (void)TAKE_FD(fd); /* nl_socket_free() closes it */
    r = set_up(sock, reterr);
    return r < 0 ? r : check_up(sock, reterr);
}

static int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0 ? -1 : value;
}

bool netns_is_way_out(int fd)
{
    struct sockaddr_in address = {.sin_family = AF_UNSPEC};
    socklen_t size = sizeof address;
    return socket_option(fd, SO_DOMAIN) == AF_INET && socket_option(fd, SO_TYPE) == SOCK_STREAM &&
           socket_option(fd, SO_PROTOCOL) == IPPROTO_TCP && socket_option(fd, SO_ACCEPTCONN) == 1 &&
           getsockname(fd, (struct sockaddr *)&address, &size) == 0 && size == sizeof address &&
           address.sin_addr.s_addr == htonl(INADDR_LOOPBACK) && address.sin_port == htons(JAIL_EGRESS_PORT) &&
           (fcntl(fd, F_GETFL) & O_NONBLOCK);
}
