/* Approvals as JSON: decisions that come in, and what is told of jobs that wait. */
#pragma once

#include <stdbool.h>

#include "config/message/approval.h"

struct buf;
struct err;
struct json;

/* {"decision": "approve"|"reject", "reason"?}. ERR_INVALID names the field. */
int approval_decision_decode(const struct json *root, bool *ret_approve,
                             char ret_reason[APPROVAL_REASON_BYTES], struct err *reterr);

/* The 202 of a job that waits. */
void approval_write_required(const struct approval *approval, struct buf *ret);
/* GET /approvals. */
void approval_write_list(const struct approval_rows *rows, struct buf *ret);
/* GET and POST /approvals/{approval_id}. `submission` NULL: the job is not kept any more. */
void approval_write_one(const struct approval *approval, const struct submission *submission,
                        struct buf *ret);
