/* The memory of a template, laid out for being forked. */
#pragma once

struct returned_arena;

struct memory {
    char *heap; /* where malloc's memory begins */
    char *area; /* the first arenas of Python's allocator lie here, one behind the other */
    char *area_next, *area_end;
    struct returned_arena *returned; /* those that Python has had, and given back */
};

/* Before the interpreter starts. `memory` stays in use as long as the process lives. */
void memory_prepare(struct memory *memory);

/* After its last action before the fork. */
void memory_settle(struct memory *memory);
