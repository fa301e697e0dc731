/* What the parts of the front share. front.c owns one; nothing of it is a global. */
#pragma once

#include <stdbool.h>

#include "config/message/egress.h"
#include "config/message/message.h"

struct callback_client;
struct content_types;
struct decoder;
struct dispatch;
struct egress;
struct front_approvals;
struct guesses;
struct held_calls;
struct http_server;
struct kept_queries;
struct log;
struct loop;
struct mcp_sessions;
struct metrics;
struct process_stats;
struct proxy;
struct otlp;
struct server_config;
struct spans;
struct relays;
struct session_queries;
struct streams;

struct front {
    struct server_config *config;
    struct loop *loop;
    struct log *log;
    struct log *audit;
    struct metrics *metrics;
    struct process_stats *process;
    struct http_server *http;
    struct dispatch *dispatch;
    struct guesses *guesses;
    struct session_queries *session_queries;
    struct kept_queries *kept_queries;
    struct relays *relays;
    struct front_approvals *approvals;
    struct streams *streams;
    struct decoder *decoder;
    struct mcp_sessions *mcp_sessions;
    struct content_types *types;       /* NULL: libmagic has no database */
    struct callback_client *callbacks; /* NULL: there is nothing that could be called */
    struct spans *spans;               /* NULL: none are wanted */
    struct otlp *otlp;
    struct held_calls *held_calls;
    struct egress *egress;
    struct egress_policies egress_policies; /* hosts that policies name */
    struct proxy *proxy;                    /* to them; NULL: there are none */
    struct msg_policy *policies;            /* those that there are */
    size_t n_policies;
    struct msg_state state; /* the warden's last word */
    bool draining;          /* the server is shutting down */
};
