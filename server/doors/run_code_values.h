/* Values as they cross between a caller and a run of POST /run-code: is one well-formed? */
#pragma once

struct err;
struct json;

/* 0, or ERR_INVALID that names `field`, or the place below it. */
int run_code_check_value(const struct json *value, const char *field, struct err *reterr);

/* The same for one that must be a function. */
int run_code_check_function(const struct json *value, const char *field, struct err *reterr);
