/* A draft as the text of a policy. */
#pragma once

struct buf;
struct draft;
struct err;

/* Appends the policy, with a head that says what it does not cover, and that alone, a line each. ERR_CONFIG
 * where no program could run under it. */
int draft_write(struct draft *draft, struct buf *ret, struct buf *ret_notes, struct err *reterr);
