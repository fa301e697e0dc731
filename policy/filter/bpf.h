/* A small interpreter of classic BPF over struct seccomp_data: what the kernel would answer, without asking
 * it. Knows what libseccomp writes. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* UINT32_MAX: the program is not one. */
static inline uint32_t bpf_run(const struct sock_filter *program, uint32_t length,
                               const struct seccomp_data *data)
{
    uint32_t a = 0;
    for (uint32_t pc = 0; pc < length; pc++) {
        const struct sock_filter *insn = &program[pc];
        switch (insn->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (insn->k % 4 != 0 || insn->k + 4 > sizeof *data) {
                return UINT32_MAX;
            }
            memcpy(&a, (const char *)data + insn->k, sizeof a);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= insn->k;
            break;
        case BPF_JMP | BPF_JA:
            pc += insn->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == insn->k ? insn->jt : insn->jf;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            pc += a > insn->k ? insn->jt : insn->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= insn->k ? insn->jt : insn->jf;
            break;
        case BPF_RET | BPF_K:
            return insn->k;
        default:
            return UINT32_MAX;
        }
    }
    return UINT32_MAX;
}
