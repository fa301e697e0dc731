/* Clean-up attributes: resources that free themselves when their scope ends, and the ways to hand them on. */
#pragma once

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* CLEANUP(fd_closep) int fd = -1; */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Gives the value away and leaves nothing to free: `*ret_fd = TAKE_FD(fd);` */
#define TAKE_FD(fd)                                                                                          \
    __extension__({                                                                                          \
        int *take_fd_ = &(fd);                                                                               \
        int taken_ = *take_fd_;                                                                              \
        *take_fd_ = -1;                                                                                      \
        taken_;                                                                                              \
    })
#define TAKE_PTR(ptr)                                                                                        \
    __extension__({                                                                                          \
        __typeof__(ptr) *take_ptr_ = &(ptr);                                                                 \
        __typeof__(ptr) taken_ = *take_ptr_;                                                                 \
        *take_ptr_ = NULL;                                                                                   \
        taken_;                                                                                              \
    })

/* The structure that has `at` as this member of its own. */
#define CONTAINER_OF(at, type, member) ((type *)(void *)((char *)(uintptr_t)(at)-offsetof(type, member)))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static inline void fd_closep(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static inline void freep(void *ptr)
{
    void **p = ptr;
    free(*p);
    *p = NULL;
}

static inline void dir_closep(DIR **dir)
{
    if (*dir) {
        closedir(*dir);
        *dir = NULL;
    }
}

static inline void file_closep(FILE **file)
{
    if (*file) {
        fclose(*file);
        *file = NULL;
    }
}
