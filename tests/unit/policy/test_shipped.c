/* What every shipped policy refuses by arguments, whatever its sets and rules become, and what those with
 * sockets allow. */
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include <cmocka.h>

#include "config/shipped.h"
#include "jail/base/buf.h"
#include "policy/filter/syscall_sets.h"
#include "tests/unit/policy/answers.h"

#define HIGH (1ull << 32) /* a bit that the kernel does not read */

struct row {
    const char *name;
    uint64_t arguments[6];
};

static const struct row refused[] = {
    {"mmap", {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB}},
    {"mmap", {0, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | HIGH}},
    {"madvise", {0, 4096, 12}}, /* MADV_MERGEABLE */
    {"madvise", {0, 4096, 20}}, /* MADV_COLD */
    {"madvise", {0, 4096, 21}}, /* MADV_PAGEOUT */
    {"madvise", {0, 4096, 21 | HIGH}},
    {"madvise", {0, 4096, 25}},  /* MADV_COLLAPSE */
    {"madvise", {0, 4096, 100}}, /* MADV_HWPOISON */
    {"madvise", {0, 4096, 101}}, /* MADV_SOFT_OFFLINE */
    {"futex", {0, FUTEX_LOCK_PI}},
    {"futex", {0, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG}},
    {"futex", {0, FUTEX_UNLOCK_PI | FUTEX_PRIVATE_FLAG}},
    {"futex", {0, FUTEX_TRYLOCK_PI | FUTEX_PRIVATE_FLAG}},
    {"futex", {0, FUTEX_WAIT_REQUEUE_PI | FUTEX_CLOCK_REALTIME}},
    {"futex", {0, FUTEX_CMP_REQUEUE_PI | FUTEX_PRIVATE_FLAG}},
    {"futex", {0, 13 | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME}}, /* FUTEX_LOCK_PI2 */
    {"futex", {0, 13 | HIGH}},
    {"futex", {0, 2}}, /* FUTEX_FD */
    {"membarrier", {1}},
    {"membarrier", {2}},
    {"membarrier", {32}},
    {"membarrier", {128}},
    {"timer_create", {CLOCK_PROCESS_CPUTIME_ID}},
    {"timer_create", {CLOCK_THREAD_CPUTIME_ID}},
    {"timer_create", {(uint32_t) ~(1u << 3)}}, /* the CPU time of process 0 by its number */
    {"clock_nanosleep", {CLOCK_PROCESS_CPUTIME_ID}},
    {"clock_nanosleep", {(uint32_t)(~1u << 3)}},
    {"sched_setscheduler", {1, SCHED_OTHER}},
    {"sched_setparam", {1}},
    {"sched_setaffinity", {1, 8}},
    {"setpriority", {PRIO_PROCESS, 1, 19}},
    {"setpriority", {PRIO_PGRP, 0, 19}},
    {"setpriority", {PRIO_USER, 0, 19}},
    {"sched_setattr", {0}},
    {"execveat", {0}},
    {"preadv2", {0}},
    {"pwritev2", {0}},
    {"io_setup", {0}},
    {"io_submit", {0}},
    {"fcntl", {0, F_SETPIPE_SZ, 65537}},
    {"fcntl", {0, F_SETPIPE_SZ, 1 << 20}},
    {"fcntl", {0, F_SETPIPE_SZ, HIGH}},
    {"fcntl", {0, F_SETPIPE_SZ | HIGH, 1 << 20}},
    {"sendmsg", {0, 0, MSG_OOB}},
    {"sendmsg", {0, 0, MSG_OOB | MSG_NOSIGNAL | HIGH}},
    {"sendmsg", {0, 0, MSG_ZEROCOPY}},
    {"sendto", {0, 0, 0, MSG_OOB}},
    {"sendto", {0, 0, 0, MSG_FASTOPEN}},
    {"sendmmsg", {0, 0, 0, MSG_OOB}},
    {"recvmsg", {0, 0, MSG_OOB}},
    {"recvfrom", {0, 0, 0, MSG_OOB | MSG_DONTWAIT}},
    {"recvmmsg", {0, 0, 0, MSG_OOB}},
    {"setsockopt", {0, SOL_SOCKET, SO_ATTACH_FILTER}},
    {"setsockopt", {0, SOL_SOCKET | HIGH, SO_ATTACH_FILTER}},
    {"setsockopt", {0, SOL_SOCKET, SO_ATTACH_BPF}},
    {"setsockopt", {0, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF}},
    {"setsockopt", {0, SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF}},
    {"setsockopt", {0, SOL_SOCKET, SO_LOCK_FILTER}},
    {"setsockopt", {0, SOL_SOCKET, SO_ZEROCOPY}},
    {"setsockopt", {0, SOL_SOCKET, SO_SNDBUF}},
    {"setsockopt", {0, SOL_SOCKET, SO_RCVBUF}},
    {"setsockopt", {0, SOL_SOCKET, SO_SNDBUFFORCE}},
    {"setsockopt", {0, SOL_SOCKET, SO_RCVBUFFORCE}},
    {"setsockopt", {0, IPPROTO_UDP, UDP_ENCAP}},
    {"setsockopt", {0, IPPROTO_IP, IP_OPTIONS}},
    {"setsockopt", {0, IPPROTO_TCP, TCP_ULP}},
    {"setsockopt", {0, IPPROTO_TCP, TCP_MD5SIG}},
};

static const struct row allowed[] = {
    {"mmap", {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE}},
    {"madvise", {0, 4096, MADV_DONTNEED}},
    {"madvise", {0, 4096, MADV_FREE}},
    {"madvise", {0, 4096, MADV_HUGEPAGE}},
    {"madvise", {0, 4096, MADV_DONTDUMP}},
    {"futex", {0, FUTEX_WAIT | FUTEX_PRIVATE_FLAG}},
    {"futex", {0, FUTEX_WAKE}},
    {"futex", {0, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG}},
    {"futex", {0, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG}},
    {"futex", {0, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME}},
    {"futex", {0, FUTEX_WAKE_BITSET}},
    {"membarrier", {8}},
    {"timer_create", {CLOCK_MONOTONIC}},
    {"clock_nanosleep", {CLOCK_REALTIME}},
    {"sched_setaffinity", {0, 8}},
    {"setpriority", {PRIO_PROCESS, 0, 5}},
    {"fcntl", {0, F_SETPIPE_SZ, 65536}},
    {"fcntl", {0, F_SETPIPE_SZ, 4096}},
    {"fcntl", {0, F_DUPFD_CLOEXEC, 3}},
    {"sendmsg", {0, 0, MSG_NOSIGNAL}},
    {"recvfrom", {0, 0, 0, MSG_PEEK | MSG_DONTWAIT}},
    {"setsockopt", {0, SOL_SOCKET, SO_REUSEADDR}},
    {"setsockopt", {0, SOL_SOCKET, SO_KEEPALIVE}},
    {"setsockopt", {0, IPPROTO_TCP, TCP_NODELAY}},
    {"setsockopt", {0, IPPROTO_IPV6, IPV6_V6ONLY}},
};

static struct policy *load(const struct shipped_file *file)
{
    CLEANUP(freep) char *text = strndup(file->data, file->size);
    return compile(text);
}

static void test_refused_by_arguments(void **state)
{
    (void)state;
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        CLEANUP(policy_freep) struct policy *policy = load(file);
        for (size_t n = 0; n < ARRAY_SIZE(refused); n++) {
            if (policy_allows_call(policy, refused[n].name, refused[n].arguments)) {
                fail_msg("%s allows %s of row %zu", policy_name(policy), refused[n].name, n);
            }
        }
    }
}

static void test_allowed_by_arguments(void **state)
{
    (void)state;
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        CLEANUP(policy_freep) struct policy *policy = load(file);
        const uint64_t any[6] = {0};
        for (size_t n = 0; policy_allows(policy, "connect", 0, any) && n < ARRAY_SIZE(allowed); n++) {
            if (!policy_allows_call(policy, allowed[n].name, allowed[n].arguments)) {
                fail_msg("%s refuses %s of row %zu", policy_name(policy), allowed[n].name, n);
            }
        }
    }
}

/* A policy that takes every set there is for programs takes none of them either. */
static void test_no_set_gives_them(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_puts(&text, "name: 'test'\n" WORKSPACE "seccomp { rule { action: ALLOW set: ['@execute'");
    for (const struct syscall_row *set = syscall_sets(); set->name; set++) {
        if (set->reason && set->kind == SET_SAFE && strcmp(set->name, "@execute") != 0) {
            buf_printf(&text, ", '%s'", set->name);
        }
    }
    buf_puts(&text, "] } }");
    CLEANUP(policy_freep) struct policy *policy = compile(text.data);
    for (size_t n = 0; n < ARRAY_SIZE(refused); n++) {
        if (policy_allows_call(policy, refused[n].name, refused[n].arguments)) {
            fail_msg("the sets allow %s of row %zu", refused[n].name, n);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_by_arguments),
        cmocka_unit_test(test_allowed_by_arguments),
        cmocka_unit_test(test_no_set_gives_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
