/* A small interpreter of classic BPF over struct seccomp_data: what the kernel would answer, without asking
 * it. Knows what libseccomp writes. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "jail/base/bpf.h"

/* UINT32_MAX: the program is not one. */
static inline uint32_t bpf_run(const struct sock_filter *program, uint32_t length,
                               const struct seccomp_data *data)
{
    uint32_t a = 0;
    for (uint32_t pc = 0; pc < length; pc++) {
        const struct sock_filter *insn = &program[pc];
        switch (insn->code) {
        case BPF_DO_LOAD:
            if (insn->k % 4 != 0 || insn->k + 4 > sizeof *data) {
                return UINT32_MAX;
            }
            memcpy(&a, (const char *)data + insn->k, sizeof a);
            break;
        case BPF_DO_AND:
            a &= insn->k;
            break;
        case BPF_DO_JUMP:
            pc += insn->k;
            break;
        case BPF_IF_EQ:
            pc += a == insn->k ? insn->jt : insn->jf;
            break;
        case BPF_IF_GT:
            pc += a > insn->k ? insn->jt : insn->jf;
            break;
        case BPF_IF_GE:
            pc += a >= insn->k ? insn->jt : insn->jf;
            break;
        case BPF_DO_RETURN:
            return insn->k;
        default:
            return UINT32_MAX;
        }
    }
    return UINT32_MAX;
}
