/* What fronts ask each other. The warden passes it on between processes of which it believes neither. */
#include "config/message/message_relay.h"

#include "config/message/message.pb-c.h"

#define ROW(own, ...) BIND(struct msg_relay, Immure__MsgRelay, own, own, __VA_ARGS__)
static const struct bind_row relay_rows[] = {
    ROW(id),
    ROW(what, .most = RELAY_COUNT - 1),
    ROW(key),
    BIND_AS(BIND_HASH, struct msg_relay, Immure__MsgRelay, key_sha256, key_sha256),
    ROW(about, .least = 1),
    ROW(reason, BIND_CASES(struct msg_relay, what, 1u << RELAY_TERMINATE)),
};
#undef ROW
const struct bind_table relay_table = {
    .name = "relay", BIND_TABLE_OF(struct msg_relay, immure__msg_relay__descriptor, relay_rows)};

/* A refusal has a kind and a text, anything else neither. */
#define ROW(own, ...) BIND(struct msg_relay_answer, Immure__MsgRelayAnswer, own, own, __VA_ARGS__)
#define OF_REFUSALS   BIND_CASES(struct msg_relay_answer, kind, ~(1u << ERR_NONE))
static const struct bind_row answer_rows[] = {
    ROW(id),
    ROW(kind, .most = ERR_UNAVAILABLE),
    ROW(item, OF_REFUSALS),
    ROW(text, OF_REFUSALS),
};
#undef OF_REFUSALS
#undef ROW
const struct bind_table relay_answer_table = {
    .name = "relay_answer",
    BIND_TABLE_OF(struct msg_relay_answer, immure__msg_relay_answer__descriptor, answer_rows)};
