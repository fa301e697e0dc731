/* The pages that every job touches, found out by watching one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct page_run {
    uintptr_t begin;
    size_t size_bytes;
    bool written; /* else only read */
};

#define PAGE_RUNS_MAX 1024

struct pages {
    struct page_run *runs; /* in a mapping of its own, so that it does not move what it describes */
    size_t n_runs;
};

/* Forks. The child calls `job`, which runs a job in it and returns; what it has touched by then is added to
 * `pages` (at first all zero), as far as there is room: the job of which most is to be had comes first. Best
 * effort: nothing is added where it cannot be seen. */
void pages_learn(void (*job)(void *argument), void *argument, struct pages *pages);

/* Gets those of the first `n_runs` at once, where a job would fault for each. */
void pages_fetch(const struct pages *pages, size_t n_runs);
