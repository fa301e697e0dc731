/* A system call in the kernel's words, as it was made: "ioctl(FIONREAD)". */
#pragma once

#include <stdint.h>

struct buf;
struct named_argument;

/* Appends the name of call `nr` of an AUDIT_ARCH_*, and in brackets those of its six arguments that
 * config/policy/constants.h has a kind for: by name, or as numbers. Zeros at the end, but for the first, say
 * nothing. What is an address, a size or a descriptor is left out; nothing is read that one points to. */
void call_text(uint32_t arch, int nr, const uint64_t arguments[6], struct buf *ret);

/* Appends one of them, in a form that `where` reads: "SOCK_STREAM|SOCK_CLOEXEC", "0x5422". */
void call_argument_text(const struct named_argument *argument, const uint64_t arguments[6], struct buf *ret);
/* What the kernel reads of it. */
uint64_t call_value(const struct named_argument *argument, uint64_t value);
