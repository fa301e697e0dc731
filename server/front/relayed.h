/* Questions of the front that has replaced this one. */
#pragma once

struct front;
struct msg_relay;

/* `fd` is what is beside it; -1: nothing. -errno: the channel is broken. */
int relayed_ask(const struct front *front, const struct msg_relay *relay, int fd);
