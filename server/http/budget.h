/* struct budget: bytes of memory that callers make the front hold: of all, and of each account. Account 0 is
 * nobody's (no key has been shown, or the server is open), the others are the keys'. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct budget {
    size_t most_bytes, used_bytes;
    size_t most_of_one_bytes; /* of one account; what is beyond that budget_debtor() tells */
    size_t n_accounts;
    bool is_shared; /* by several keys */
    size_t *used_by;
};

/* `n_accounts` at least 1. -ENOMEM. All zeros is a closed one. */
int budget_open(struct budget *budget, size_t most_bytes, size_t most_of_one_bytes, size_t n_accounts);
void budget_close(struct budget *budget);
/* So many keys share it now. Accounts are at least as many as before. -ENOMEM: nothing has changed. */
int budget_set_keys(struct budget *budget, size_t n_keys, size_t n_accounts);

enum budget_answer {
    BUDGET_TAKEN,
    BUDGET_FULL,     /* there are not so many left */
    BUDGET_NO_SHARE, /* the account would have more than is left for all others */
};
/* For what may be refused: nothing is taken then. However many accounts take all they can get, for the next
 * one there is as much left as the largest of them has. */
enum budget_answer budget_take(struct budget *budget, unsigned account, size_t bytes);

/* For what is there already. */
void budget_add(struct budget *budget, unsigned account, size_t bytes);
void budget_give_back(struct budget *budget, unsigned account, size_t bytes);
/* Whose bytes are too many now that this account has got some: its own, if those are beyond what one may
 * have; where all are too many, the largest's. -1: nobody's. */
int budget_debtor(const struct budget *budget, unsigned account);
