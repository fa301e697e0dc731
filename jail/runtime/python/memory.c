/* Lays a template's memory out so that its forks cost little. Everything here is best effort: without it jobs
 * run as well, only slower.
 *
 * A job pays for each page: at fork for the entry in its page table, at the first write for a copy, at exit
 * for the release. Measured on one machine: 2.2 us for a write to a page that the template shares, 1.1 us for
 * one to a page that nobody has had, and 0.1 us for an entry. Hence:
 *
 * - What the template has filled lies in huge pages, whose one entry stands for 512.
 * - What a job allocates comes from untouched pages. Python's allocator would rather fill the gaps that
 * imports have left all over its pools; so the gaps are filled beforehand. */
#include "jail/runtime/python/memory.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES (2ul << 20)
#define AREA_BYTES (8ul << 20)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/* Objects/obmalloc.c: blocks of one size in pools, which begin with the number of blocks in use. */
#define POOL_BYTES      (16ul << 10)
#define BLOCK_STEP      16
#define BLOCK_BYTES_MAX 512

#define HEAP_STEP_BYTES (64ul << 10) /* below malloc's threshold for mappings of their own */

static uintptr_t align_up(uintptr_t address)
{
    return (address + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
}

static void *take_arena(void *context, size_t size)
{
    struct memory *memory = context;
    if (size <= (size_t)(memory->area_end - memory->area_next)) {
        char *arena = memory->area_next;
        memory->area_next += size;
        return arena;
    }
    void *arena = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return arena == MAP_FAILED ? NULL : arena;
}

static void give_arena_back(void *context, void *arena, size_t size)
{
    (void)context;
    munmap(arena, size);
}

void memory_prepare(struct memory *memory)
{
    *memory = (struct memory){0};
    /* A gap before the heap, which malloc has hardly begun. */
    uintptr_t end = (uintptr_t)sbrk(0);
    if (sbrk((intptr_t)(align_up(end) - end)) != (void *)-1) {
        memory->heap = sbrk(0);
    }
    void *area =
        mmap(NULL, AREA_BYTES + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED) {
        return;
    }
    memory->area = memory->area_next = (char *)align_up((uintptr_t)area);
    memory->area_end = memory->area + AREA_BYTES;
    munmap(area, (size_t)(memory->area - (char *)area));
    munmap(memory->area_end, HUGE_BYTES - (size_t)(memory->area - (char *)area));
    PyObjectArenaAllocator allocator = {.ctx = memory, .alloc = take_arena, .free = give_arena_back};
    PyObject_SetArenaAllocator(&allocator);
}

/* False for what does not come from our arenas: large blocks, other allocators. */
static bool in_used_pool(const struct memory *memory, const void *block)
{
    const char *at = block;
    return at >= memory->area &&
           at<memory->area_next &&*(const unsigned *)((uintptr_t)block & ~(uintptr_t)(POOL_BYTES - 1))> 1;
}

/* Takes every free block of pools that are in use, then every free pool; none is ever given back. What is
 * left then is a new arena, behind the last huge page. */
static void fill_arenas(struct memory *memory)
{
    void *block;
    for (size_t size = BLOCK_STEP; size <= BLOCK_BYTES_MAX; size += BLOCK_STEP) {
        do {
            block = PyObject_Malloc(size);
        } while (in_used_pool(memory, block));
        PyObject_Free(block);
    }
    memory->area_next = (char *)align_up((uintptr_t)memory->area_next);
    const char *next = memory->area_next;
    do {
        block = PyObject_Malloc(BLOCK_BYTES_MAX);
    } while (block && (const char *)block >= memory->area && (const char *)block < next);
}

/* Pushes the end of the heap across the end of a huge page, and takes every free block before it. Returns
 * where the untouched part begins. */
static char *fill_heap(void)
{
    char *end = (char *)align_up((uintptr_t)sbrk(0)), *block;
    for (size_t size = HEAP_STEP_BYTES; size >= sizeof(void *); size /= 2) {
        do {
            block = malloc(size);
        } while (block && block < end);
    }
    /* Where a job's first blocks will come from is part of the heap already, so that it can be fetched. */
    void *volatile room = malloc(HEAP_STEP_BYTES);
    free(room);
    return end;
}

static void collapse(char *begin, const char *end)
{
    if (begin && begin < end) {
        madvise(begin, (size_t)(end - begin), MADV_COLLAPSE);
    }
}

void memory_settle(struct memory *memory)
{
    collapse(memory->heap, fill_heap());
    if (memory->area_next == memory->area) {
        return;
    }
    fill_arenas(memory);
    const char *filled = memory->area_next - ((uintptr_t)memory->area_next & (HUGE_BYTES - 1));
    collapse(memory->area, filled);
    /* Where huge pages are the rule: a job must not get one for its first few bytes. */
    madvise((void *)(uintptr_t)filled, (size_t)(memory->area_end - filled), MADV_NOHUGEPAGE);
}
