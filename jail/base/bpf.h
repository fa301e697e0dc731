/* What seccomp filters are written with: instructions of the kernel's classic BPF, which looks at a system
 * call 32 bits at a time. */
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#define BPF_OUR_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define BPF_OUR_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "no filters for this architecture"
#endif

#define BPF_DO_LOAD   (BPF_LD | BPF_W | BPF_ABS) /* from this offset in struct seccomp_data */
#define BPF_DO_AND    (BPF_ALU | BPF_AND | BPF_K)
#define BPF_DO_RETURN (BPF_RET | BPF_K)
#define BPF_DO_JUMP   (BPF_JMP | BPF_JA)
/* Skip so many instructions where it holds, so many others where not. */
#define BPF_IF_EQ  (BPF_JMP | BPF_JEQ | BPF_K)
#define BPF_IF_GT  (BPF_JMP | BPF_JGT | BPF_K)
#define BPF_IF_GE  (BPF_JMP | BPF_JGE | BPF_K)
#define BPF_IF_ANY (BPF_JMP | BPF_JSET | BPF_K) /* of these bits */

/* Of a jail's filter: PID 1 is handed the call as for SECCOMP_RET_USER_NOTIF, and ends its process. The
 * kernel does not tell PID 1 which of the two it was; PID 1 asks the filter itself. */
#define BPF_ANSWER_END (SECCOMP_RET_USER_NOTIF | 1u)

#define BPF_DO(code, k)           BPF_STMT((code), (uint32_t)(k))
#define BPF_SKIP(how, k, yes, no) BPF_JUMP((how), (uint32_t)(k), (uint8_t)(yes), (uint8_t)(no))

#define BPF_NUMBER       offsetof(struct seccomp_data, nr)
#define BPF_ARCHITECTURE offsetof(struct seccomp_data, arch)
/* Where one half of an argument lies. */
static inline uint32_t bpf_argument(unsigned n, bool high)
{
    bool second = high == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    return (uint32_t)(offsetof(struct seccomp_data, args) + n * sizeof(uint64_t) + second * sizeof(uint32_t));
}
