/* Lays a template's memory out so that its forks cost little. Everything here is best effort: without it jobs run as
 * well, only slower.
 *
 * A job pays for each page: at fork for the entry in its page table, at the first write for a copy, at exit for the
 * release. Measured on one machine: 2.2 us for a write to a page that the template shares, 1.1 us for one to a page that
 * nobody has had, and 0.1 us for an entry. Hence:
 *
 * - What the template has filled lies in huge pages, whose one entry stands for 512.
 * - What a job allocates comes from untouched pages. Python's allocator would rather fill the gaps that imports have
 *   left all over its pools; so the gaps are filled beforehand. */
#include "jail/runtime/python/memory.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
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
    void *area = mmap(NULL, AREA_BYTES + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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

static unsigned blocks_in_use(const void *block)
{
    return *(const unsigned *)((uintptr_t)block & ~(POOL_BYTES - 1));
}

/* Takes every free block of pools that are in use, then every free pool. What is left is a new arena. */
static void fill_gaps(struct memory *memory)
{
    for (size_t size = BLOCK_STEP; size <= BLOCK_BYTES_MAX; size += BLOCK_STEP) {
        void *block = PyObject_Malloc(size);
        while (block && blocks_in_use(block) > 1) {
            block = PyObject_Malloc(size);
        }
        PyObject_Free(block);
    }
    char *next = memory->area_next;
    while (memory->area_next == next && memory->area_next < memory->area_end) {
        if (!PyObject_Malloc(BLOCK_BYTES_MAX)) {
            return;
        }
    }
}

/* Puts what lies between into huge pages, as far as it fills them. */
static void collapse(char *begin, const char *end)
{
    size_t size = (size_t)(end - begin) & ~(HUGE_BYTES - 1);
    if (begin && size > 0) {
        madvise(begin, size, MADV_COLLAPSE);
    }
}

void memory_settle(struct memory *memory)
{
    if (!memory->area) {
        return;
    }
    fill_gaps(memory);
    collapse(memory->heap, sbrk(0));
    collapse(memory->area, memory->area_next);
    /* Where huge pages are the rule: a job must not get one for its first few bytes. */
    char *rest = (char *)align_up((uintptr_t)memory->area_next);
    if (rest < memory->area_end) {
        madvise(rest, (size_t)(memory->area_end - rest), MADV_NOHUGEPAGE);
    }
}
