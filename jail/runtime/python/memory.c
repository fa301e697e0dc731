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

#include "jail/runtime/python/python.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES (2ul << 20)
#define AREA_BYTES (32ul << 20)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/* Objects/obmalloc.c: blocks of one size in pools. */
#define BLOCK_STEP      16
#define BLOCK_BYTES_MAX 512

#define HEAP_STEP_BYTES (64ul << 10) /* below malloc's threshold for mappings of their own */

static uintptr_t align_up(uintptr_t address)
{
    return (address + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
}

/* Objects/obmalloc.c; not in the limited API, and the same since 3.4. */
struct arena_allocator {
    void *context;
    void *(*take)(void *context, size_t size);
    void (*give_back)(void *context, void *arena, size_t size);
};

struct returned_arena {
    struct returned_arena *next;
    size_t size;
};

static void *take_arena(void *context, size_t size)
{
    struct memory *memory = context;
    if (memory->returned && size == memory->returned->size) {
        void *arena = memory->returned;
        memory->returned = memory->returned->next;
        return arena;
    }
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
    struct memory *memory = context;
    if ((char *)arena < memory->area || (char *)arena >= memory->area_end) {
        munmap(arena, size);
        return;
    }
    /* A hole would tear the huge pages; the next one comes here. */
    struct returned_arena *returned = arena;
    *returned = (struct returned_arena){.next = memory->returned, .size = size};
    memory->returned = returned;
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
    struct arena_allocator allocator = {.context = memory, .take = take_arena, .give_back = give_arena_back};
    void (*set_allocator)(struct arena_allocator *) =
        (__typeof__(set_allocator))dlsym(RTLD_DEFAULT, "PyObject_SetArenaAllocator");
    if (set_allocator) {
        set_allocator(&allocator);
    }
}

/* Takes every free block and every free pool, and never gives them back: the largest blocks first, for which
 * whole pools are used up; then the smaller ones find room only in pools of their own size. What is left is a
 * new arena, behind the last huge page. Ends, too, where blocks come from elsewhere. */
static void fill_arenas(struct memory *memory)
{
    const char *block;
    memory->area_next = (char *)align_up((uintptr_t)memory->area_next);
    const char *next = memory->area_next;
    for (size_t size = BLOCK_BYTES_MAX; size >= BLOCK_STEP; size -= BLOCK_STEP) {
        do {
            block = PyObject_Malloc(size);
        } while (block && block >= memory->area && block < next);
        PyObject_Free((void *)(uintptr_t)block);
    }
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
