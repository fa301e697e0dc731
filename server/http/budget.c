/* Budgets of the front's memory. Runs in the front. Bodies on their way in may be refused: what is free is
 * shared so that no key has more than the others can still get. Replies on their way out are there already:
 * who has too many loses one (server/http/unread.c). */
#include "server/http/budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int budget_open(struct budget *budget, size_t most_bytes, size_t most_of_one_bytes, size_t n_accounts)
{
    size_t *used_by = calloc(n_accounts, sizeof *used_by);
    if (!used_by) {
        return -ENOMEM;
    }
    *budget = (struct budget){.most_bytes = most_bytes,
                              .most_of_one_bytes = most_of_one_bytes,
                              .n_accounts = n_accounts,
                              .is_shared = n_accounts > 2,
                              .used_by = used_by};
    return 0;
}

void budget_close(struct budget *budget)
{
    free(budget->used_by);
    *budget = (struct budget){0};
}

int budget_set_keys(struct budget *budget, size_t n_keys, size_t n_accounts)
{
    size_t *used_by = reallocarray(budget->used_by, n_accounts, sizeof *used_by);
    if (!used_by) {
        return -ENOMEM;
    }
    memset(used_by + budget->n_accounts, 0, (n_accounts - budget->n_accounts) * sizeof *used_by);
    budget->used_by = used_by;
    budget->n_accounts = n_accounts;
    budget->is_shared = n_keys > 1;
    return 0;
}

enum budget_answer budget_take(struct budget *budget, unsigned account, size_t bytes)
{
    size_t left = budget->most_bytes - budget->used_bytes, of_one = budget->used_by[account];
    if (bytes > left) {
        return BUDGET_FULL;
    }
    if (budget->is_shared && of_one + bytes > left - bytes) {
        return BUDGET_NO_SHARE;
    }
    budget_add(budget, account, bytes);
    return BUDGET_TAKEN;
}

void budget_add(struct budget *budget, unsigned account, size_t bytes)
{
    budget->used_bytes += bytes;
    budget->used_by[account] += bytes;
}

void budget_give_back(struct budget *budget, unsigned account, size_t bytes)
{
    budget->used_bytes -= bytes;
    budget->used_by[account] -= bytes;
}

int budget_debtor(const struct budget *budget, unsigned account)
{
    if (budget->used_by[account] > budget->most_of_one_bytes) {
        return (int)account;
    }
    if (budget->used_bytes <= budget->most_bytes) {
        return -1;
    }
    size_t largest = account;
    for (size_t i = 0; i < budget->n_accounts; i++) {
        largest = budget->used_by[i] > budget->used_by[largest] ? i : largest;
    }
    return (int)largest;
}
