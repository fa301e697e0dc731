/* struct function_ids: the functions that a request of POST /run-code gives to its module, by their ids. What
 * is none of them is never called, whoever asks for it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;
struct json;

/* How many function values one request may hold. */
#define FUNCTION_IDS_MAX 4096u

struct function_ids {
    char **ids; /* sorted by function_ids_seal() */
    size_t n;
};

/* Adds the id of every function in a value that run_code_check_value() has passed. ERR_INVALID: there are too
 * many. */
int function_ids_collect(struct function_ids *ids, const struct json *value, struct err *reterr);
/* Nothing is added any more. */
void function_ids_seal(struct function_ids *ids);
/* Of ids that are sealed. */
bool function_ids_has(const struct function_ids *ids, const char *id);
void function_ids_clear(struct function_ids *ids);
