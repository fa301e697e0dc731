/* What the parent says to a template and to the processes parked by it. Both are of one build. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jail_plan;

enum zygote_kind {
    ZYGOTE_PARK, /* to the template: build a jail by the plan that follows; control socket, scratch,
                    workspace and cgroup (if any) come along */
    ZYGOTE_RUN,  /* to the parked process: run what the plan that follows says; stdin, stdout, stderr come
                    along, and the two ends of the bridge if the program has one */
};

/* Stands before an encoded plan in one datagram. */
struct zygote_header {
    enum zygote_kind kind;
    uint32_t inner_uid; /* PARK: the jail's ids outside, as the template's user namespace calls them */
    bool drop_groups;   /* PARK */
    bool is_awaited;    /* PARK: a job will want it at once */
    bool filter_early;  /* PARK: the filter lets the process do what is left to do after parking */
    bool has_workspace; /* PARK */
    bool files_late;    /* PARK: the filter lets the process lower its RLIMIT_NOFILE */
};

#define ZYGOTE_MESSAGE_MAX (160u << 10)

/* The two parts of a message. -EBADMSG for what no parent of this build would have sent: a plan, too, that
 * breaks the rules or does not end in RUN. */
int zygote_decode_header(const void *message, size_t size, struct zygote_header *ret);
int zygote_decode_plan(const void *message, size_t size, struct jail_plan **ret);
