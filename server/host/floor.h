/* The host's memory: what is left of it, and whose jobs took it. For all that the kernel counts for nobody.
 *
 * A floor is passed when less memory is available than the larger of two figures (MemAvailable), or when the
 * kernel itself holds more than a share of all memory that it cannot give back (SUnreclaim). It is over with
 * a quarter more than the floor available and an eighth less than that share held. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define FLOOR_MEMINFO "/proc/meminfo"

/* 0: no such floor. */
struct floor_limits {
    uint64_t free_bytes;
    uint32_t free_percent;   /* of all memory */
    uint32_t kernel_percent; /* of all memory; what the kernel cannot give back */
};

struct floor {
    int fd; /* of FLOOR_MEMINFO; -1: nothing is watched */
    uint64_t total_bytes, available_bytes, kernel_bytes;
    bool passed;
};

/* Opens `path`, which is read again and again. */
int floor_open(struct floor *floor, const char *path, struct err *reterr);
void floor_close(struct floor *floor);
/* Reads it once and decides. `*ret_kernel_change` is by how much the kernel's memory has grown or shrunk
 * since the last time. A text that says nothing changes nothing. Returns `floor->passed`. */
bool floor_look(struct floor *floor, const struct floor_limits *limits, int64_t *ret_kernel_change);
/* The figure that is passed first. */
uint64_t floor_free_bytes(const struct floor *floor, const struct floor_limits *limits);

/* What is known of one job from look to look. */
struct floor_account {
    uint64_t cpu_ns;       /* at the last look */
    uint64_t blamed_bytes; /* of the kernel's memory */
};

/* A job, or an interpreter between two jobs, as it is now. */
struct floor_candidate {
    struct floor_account *account;
    uint64_t memory_bytes, cpu_ns;
    void *owner;
    bool is_job;
};

/* Puts the growth of the kernel's memory down to the candidates, by the CPU time that they have used since
 * the last look. That is no proof: but what takes memory from the kernel has to ask for it, piece by piece.
 * Where that memory has shrunk, to `kernel_bytes`, nobody's blame stays as large as it was. */
void floor_blame(struct floor_candidate *candidates, size_t n, int64_t change_bytes, uint64_t kernel_bytes);
/* Which of them has grown most: memory of its own and what it is blamed for. The first of equals; `n`: there
 * is none. */
size_t floor_choose(const struct floor_candidate *candidates, size_t n);
