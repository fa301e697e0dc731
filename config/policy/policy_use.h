/* Policies made of others: policy_file.c is alone in calling this. */
#pragma once

struct Immure__Policy;
struct buf;
struct err;
struct source;

/* Puts a message in the place of `*message` that has what the policies and parts bring that it uses, without
 * what it leaves out, and then its own; `source` then tells for each field where it was written. Appends the
 * new message to `ret_text`. What uses nothing stays as it is, and no text is written. ERR_CONFIG with the
 * place; `*message` is the caller's to free in any case. */
int policy_use(struct source *source, struct Immure__Policy **message, struct buf *ret_text,
               struct err *reterr);
