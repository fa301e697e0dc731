/* Policies as the warden describes them to a front, which reads no file: names, limits, what a job under one
 * finds. */
#include "config/message/message_policy.h"

#include <stdlib.h>

#include "config/message/message.pb-c.h"
#include "config/message/message_job.h"

#define ROW(own, ...) BIND(struct msg_policy, Immure__MsgPolicy, own, own, __VA_ARGS__)
static const struct bind_row policy_rows[] = {
    ROW(name),
    ROW(sha256),
    BIND(struct msg_policy, Immure__MsgPolicy, image, image_name),
    BIND_AS(BIND_ONE, struct msg_policy, Immure__MsgPolicy, limits, limits, .table = &limits_table),
    ROW(approval, .most = 2),
    ROW(kernel),
    ROW(loopback),
    ROW(egress),
    ROW(has_lists),
    BIND_SOME(BIND_TEXTS, struct msg_policy, Immure__MsgPolicy, images, n_images, image),
    BIND_SOME(BIND_TEXTS, struct msg_policy, Immure__MsgPolicy, preload, n_preload, preload),
};
#undef ROW
const struct bind_table policy_table = {
    .name = "config.policy", BIND_TABLE_OF(struct msg_policy, immure__msg_policy__descriptor, policy_rows)};

void msg_policies_free(struct msg_policy *policies, size_t n)
{
    for (size_t i = 0; policies && i < n; i++) {
        bind_clear(&policy_table, &policies[i]);
    }
    free(policies);
}
