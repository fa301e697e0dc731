/* What the fuzz targets share. Each fuzz_NAME.c defines LLVMFuzzerTestOneInput() and says in it what must
 * hold for every input; it is linked with libFuzzer, or with replay.c, which runs files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* The target. Leaves nothing behind but what it loads once for all inputs. */
void fuzz_one(const uint8_t *data, size_t size);
/* What libFuzzer and replay.c call: fuzz_one(), held to its limits. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Optional: writes another input over this one and returns its size. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
/* libFuzzer's own way of doing that. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* Ends the process in a way that a fuzzer and a sanitizer report. */
#define REQUIRE(condition) ((condition) ? (void)0 : fuzz_broken(__FILE__, __LINE__, #condition))
void fuzz_broken(const char *file, int line, const char *condition) __attribute__((noreturn));

/* A refusal: `r` is negative, and the error is of that kind, with a text. */
struct expected_refusal {
    int r;
    const struct err *err;
    const uint8_t *data; /* what was refused */
    size_t size;
};
/* ERR_INVALID, and its text begins with "line L, column C: ", a place inside the input or just behind it. */
void fuzz_require_json_refusal(struct expected_refusal refusal);
/* ERR_CONFIG, and its item is FILE:LINE:COLUMN, such a place too. With `whole_file_allowed` it may be FILE
 * alone: something that stands nowhere is missing. */
void fuzz_require_file_refusal(struct expected_refusal refusal, const char *file, bool whole_file_allowed);
