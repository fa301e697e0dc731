/* Policies as the warden describes them to a front, which reads no file: names, limits, what a job under one
 * finds. */
#include "config/message/message_policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/pool.h"
#include "config/format/wire.h"
#include "config/message/message.pb-c.h"
#include "config/message/message_job.h"
#include "jail/base/err.h"

Immure__MsgPolicy **policies_to_messages(const struct msg_policy *policies, size_t n, struct pool *pool)
{
    Immure__MsgPolicy **pointers = pool_alloc(pool, n, sizeof *pointers);
    Immure__MsgPolicy *messages = pool_alloc(pool, n, sizeof *messages);
    for (size_t i = 0; pointers && messages && i < n; i++) {
        const struct msg_policy *policy = &policies[i];
        immure__msg_policy__init(&messages[i]);
        messages[i].name = policy->name;
        messages[i].sha256 = policy->sha256;
        messages[i].image_name = policy->image;
        messages[i].limits = limits_to_message(&policy->limits, pool);
        messages[i].approval = policy->approval;
        messages[i].kernel = policy->kernel;
        messages[i].loopback = policy->loopback;
        messages[i].has_lists = policy->has_lists;
        messages[i].image = policy->images;
        messages[i].n_image = policy->has_lists ? policy->n_images : 0;
        messages[i].preload = policy->preload;
        messages[i].n_preload = policy->has_lists ? policy->n_preload : 0;
        pointers[i] = &messages[i];
    }
    return pointers;
}

static char **copy_texts(char *const *texts, size_t n)
{
    char **copies = calloc(n + 1, sizeof *copies);
    for (size_t i = 0; copies && i < n; i++) {
        copies[i] = strdup(texts[i]);
        if (!copies[i]) {
            while (i > 0) {
                free(copies[--i]);
            }
            free(copies);
            return NULL;
        }
    }
    return copies;
}

static void texts_free(char **texts, size_t n)
{
    for (size_t i = 0; texts && i < n; i++) {
        free(texts[i]);
    }
    free(texts);
}

void msg_policies_free(struct msg_policy *policies, size_t n)
{
    for (size_t i = 0; policies && i < n; i++) {
        free(policies[i].name);
        free(policies[i].sha256);
        free(policies[i].image);
        texts_free(policies[i].images, policies[i].n_images);
        texts_free(policies[i].preload, policies[i].n_preload);
    }
    free(policies);
}

static int from_message(const Immure__MsgPolicy *message, struct msg_policy *ret, struct err *reterr)
{
    if (message->approval > 2) {
        return wire_refuse(reterr, "config.policy.approval", "is not known");
    }
    *ret = (struct msg_policy){.name = strdup(message->name),
                               .sha256 = strdup(message->sha256),
                               .image = strdup(message->image_name),
                               .approval = message->approval,
                               .kernel = message->kernel,
                               .loopback = message->loopback,
                               .has_lists = message->has_lists,
                               .images = copy_texts(message->image, message->n_image),
                               .preload = copy_texts(message->preload, message->n_preload),
                               .n_images = message->n_image,
                               .n_preload = message->n_preload};
    if (!ret->name || !ret->sha256 || !ret->image || !ret->images || !ret->preload) {
        return err_errno(reterr, ENOMEM, "while reading a message");
    }
    return limits_from_message(message->limits, &ret->limits, reterr);
}

int policies_from_messages(Immure__MsgPolicy *const *messages, size_t n, struct msg_policy **ret,
                           struct err *reterr)
{
    if (n > MSG_POLICIES_MAX) {
        return wire_refuse(reterr, "config.policy", "has more rows than there can be");
    }
    struct msg_policy *policies = calloc(n + 1, sizeof *policies);
    if (!policies) {
        return err_errno(reterr, ENOMEM, "while reading a message");
    }
    for (size_t i = 0; i < n; i++) {
        int r = from_message(messages[i], &policies[i], reterr);
        if (r < 0) {
            msg_policies_free(policies, i + 1);
            return r;
        }
    }
    *ret = policies;
    return 0;
}
