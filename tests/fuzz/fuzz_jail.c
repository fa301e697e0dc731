/* What PID 1 of a jail tells its parent: whatever it says and in whatever order, the jail goes through its
 * states in one direction, a program that runs has its deadline, and no time is one that has not come.
 *
 * The input is a conversation (datagrams.h). The first message's count of descriptors says whether a template
 * makes the jail, and whether it is a kernel's; RUN_FIRST descriptors or more ask for the program to be
 * handed over before, or for the kernel's that runs to be interrupted. What comes with CHILD_DENIED is a
 * table, of as many rows as the message's `step` says. */
#include <linux/sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/child/denied.h"
#include "jail/child/message.h"
#include "jail/jail_internal.h"
#include "jail/standby.h"
#include "jail/template.h"
#include "tests/fuzz/datagrams.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

#define RUN_FIRST  4u
#define OF_KERNEL  5u /* with one descriptor */
#define GRACE_MS   1800000u
#define TIMEOUT_MS 3600000u

struct side {
    struct jail *jail;
    int childs_end;
    int pidfd; /* none, but it becomes readable when we say so */
    int table_fd;
    struct denied_table *table;
    enum jail_state before;
};

static size_t change(uint8_t *data, size_t size, size_t max_size, uint64_t *series)
{
    struct child_message message;
    if (size != sizeof message || mutate_next(series) % 8 == 0) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    memcpy(&message, data, size);
    uint64_t number = mutate_next(series);
    switch (number % 8) {
    case 0:
    case 1:
        message.kind = (enum child_message_kind)(number / 8 % (CHILD_ENDED + 2));
        break;
    case 2:
        message.time_ns = number << (number / 8 % 33);
        break;
    case 3:
        message.step = (uint32_t)(number / 8 % (JAIL_DENIED_MAX + 2));
        break;
    case 4:
        memset(&message.is_alone, (int)(number / 8 % 3), 1);
        break;
    case 5:
        memset(&message.proc_absent, (int)(number / 8 % 3), 1);
        break;
    default:
        LLVMFuzzerMutate((uint8_t *)&message, size, size);
    }
    memcpy(data, &message, size);
    return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return datagrams_mutate(change, data, size, max_size, seed);
}

/* The least that a template can be asked for. */
static const struct jail_plan *the_plan(void)
{
    static const enum jail_step_kind kinds[] = {
        JAIL_STEP_PROPAGATION,  JAIL_STEP_IDENTITY, JAIL_STEP_ROOT_INHERITED, JAIL_STEP_CAPABILITIES,
        JAIL_STEP_NO_NEW_PRIVS, JAIL_STEP_PROGRAM,  JAIL_STEP_SESSION,        JAIL_STEP_RUN};
    static struct jail_plan *plan;
    if (plan) {
        return plan;
    }
    plan = jail_plan_new();
    plan->namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID;
    plan->uid = plan->gid = 1000;
    plan->limits.timeout_ms = TIMEOUT_MS;
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        struct jail_step *step = jail_plan_add(plan, kinds[i]);
        if (kinds[i] == JAIL_STEP_IDENTITY) {
            step->identity.uid = step->identity.gid = 1000;
        } else if (kinds[i] == JAIL_STEP_RUN) {
            step->exec.path = step->exec.argv = jail_plan_text(plan, "/bin/true");
            step->exec.argc = 1;
        }
    }
    REQUIRE(jail_plan_check(plan, NULL) == 0);
    return plan;
}

static void open_side(struct side *side, bool by_template, bool kernel)
{
    *side = (struct side){.childs_end = -1, .pidfd = eventfd(0, EFD_CLOEXEC), .before = JAIL_BUILDING};
    REQUIRE(side->pidfd >= 0);
    const char *call;
    REQUIRE(denied_new(&side->table, &side->table_fd, &call) == 0);
    REQUIRE(jail_new(the_plan(), NULL, &side->jail, &side->childs_end, NULL) == 0);
    side->jail->by_template = side->jail->parks = by_template;
    side->jail->kernel = kernel;
    side->jail->grace_ms = GRACE_MS;
    side->jail->cloned_ns = clock_now_ns();
}

static void hand_over(struct side *side)
{
    const int stdio[JAIL_PROGRAM_FDS] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, STDIN_FILENO,
                                         STDOUT_FILENO};
    if (side->jail->kernel && jail_state(side->jail) == JAIL_RUNNING) {
        jail_interrupt(side->jail, JAIL_END_DEADLINE);
        return;
    }
    int r = side->jail->kernel ? jail_standby_run(side->jail, the_plan(), stdio, side->table_fd, NULL)
                               : jail_run(side->jail, the_plan(), stdio, 3, NULL);
    REQUIRE(r < 0 || jail_state(side->jail) == JAIL_BUILDING);
    side->before = jail_state(side->jail);
}

static void say(struct side *side, const struct datagram *datagram)
{
    char dropped[16];
    struct child_message message = {.kind = CHILD_STARTED};
    memcpy(&message, datagram->data, datagram->size < sizeof message ? datagram->size : sizeof message);
    int fd = message.kind == CHILD_DENIED ? side->table_fd : side->pidfd;
    side->table->n_rows = message.kind == CHILD_DENIED ? message.step : side->table->n_rows;
    const int fds[] = {fd, side->pidfd, side->pidfd};
    if (io_send_fds(side->childs_end, datagram->data, datagram->size, fds, datagram->n_fds % RUN_FIRST) < 0) {
        return; /* nobody listens any more */
    }
    while (recv(side->childs_end, dropped, sizeof dropped, MSG_DONTWAIT) > 0) { /* what we were told */
    }
}

static void require_sense(struct side *side)
{
    /* From where to where it may go; a hand-over is ours and comes before. */
    static const unsigned may_become[] = {
        [JAIL_BUILDING] = 1u << JAIL_BUILDING | 1u << JAIL_PARKED | 1u << JAIL_RUNNING | 1u << JAIL_ENDED,
        [JAIL_PARKED] = 1u << JAIL_PARKED | 1u << JAIL_ENDED,
        [JAIL_RUNNING] = 1u << JAIL_RUNNING | 1u << JAIL_ENDED,
        [JAIL_ENDED] = 1u << JAIL_ENDED,
    };
    const struct jail *jail = side->jail;
    enum jail_state state = jail_state(jail);
    bool waits_again = jail->kernel && side->before == JAIL_RUNNING && state == JAIL_PARKED;
    REQUIRE(waits_again == jail_has_called(jail) || side->before != JAIL_RUNNING);
    REQUIRE(waits_again || may_become[side->before] >> state & 1);
    side->before = state;
    if (state == JAIL_RUNNING) {
        REQUIRE(jail->started_ns >= jail->cloned_ns && jail->started_ns <= clock_now_ns());
        REQUIRE(jail->interrupted || jail_deadline_ns(jail) == jail->started_ns + TIMEOUT_MS * NS_PER_MS);
        REQUIRE(!jail->interrupted || jail_deadline_ns(jail) <= clock_now_ns() + GRACE_MS * NS_PER_MS);
    }
}

static void close_side(struct side *side)
{
    struct jail_result result;
    uint64_t one = 1, spent_ns = clock_now_ns() - side->jail->cloned_ns;
    close(side->childs_end);
    REQUIRE(write(side->pidfd, &one, sizeof one) == sizeof one);
    jail_dispatch(side->jail);
    require_sense(side);
    if (jail_state(side->jail) == JAIL_ENDED && jail_collect(side->jail, &result, NULL) == 0) {
        REQUIRE(result.setup_ns <= spent_ns + NS_PER_S && result.duration_ns <= spent_ns + NS_PER_S);
        REQUIRE(result.denied.n_rows <= JAIL_DENIED_MAX && result.denied.n_calls <= JAIL_DENIED_CALLS_MAX &&
                result.end != JAIL_END_NONE);
    }
    jail_free(side->jail);
    close(side->pidfd);
    close(side->table_fd);
    munmap(side->table, sizeof *side->table);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    struct side side;
    struct datagram datagram;
    bool opened = false;
    while (datagram_next(&data, &size, &datagram)) {
        if (!opened) {
            open_side(&side, datagram.n_fds > 0, datagram.n_fds == OF_KERNEL);
            opened = true;
        }
        if (datagram.n_fds >= RUN_FIRST) {
            hand_over(&side);
        }
        say(&side, &datagram);
        jail_dispatch(side.jail);
        require_sense(&side);
    }
    if (opened) {
        close_side(&side);
    }
}
