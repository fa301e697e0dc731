/* struct jail_plan: all that a jail will be, as pure data: an ordered array of steps that the child applies
 * in one loop.
 *
 * A plan holds no pointers and no descriptors. Strings, argument vectors, file contents and the compiled BPF
 * lie in one arena and are named by offset, so a plan can be copied, cached, sent to another process, or
 * printed. Descriptors that differ from job to job are named by slot (enum jail_fd) and handed to
 * jail_spawn() beside the plan. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

enum jail_step_kind {
#define X(name, word, where, doc) JAIL_STEP_##name,
#include "jail/plan/steps.def"
#undef X
    JAIL_STEP_COUNT,
};

/* Descriptors that jail_spawn() gets beside the plan; -1 where the plan does not use the slot. */
enum jail_fd {
    JAIL_FD_STDIN,
    JAIL_FD_STDOUT,
    JAIL_FD_STDERR,
    JAIL_FD_SCRATCH,    /* a detached mount: scratch_open() */
    JAIL_FD_INPUT,      /* a readable, seekable file that FILE steps copy from */
    JAIL_FD_BRIDGE_IN,  /* pipes of the BRIDGE step: the end that the program reads, */
    JAIL_FD_BRIDGE_OUT, /* and the end that it writes */
    JAIL_FD_WORKSPACE,  /* a detached mount: keeper_copy() */
    JAIL_FD_IMAGE,      /* a detached mount of an image's root directory */
    JAIL_FD_BIND,       /* detached mounts that BIND steps attach instead of opening their sources */
    JAIL_FD_BIND_LAST = JAIL_FD_BIND + 7,
    JAIL_FD_COUNT,
};
#define JAIL_BINDS_GIVEN_MAX ((size_t)(JAIL_FD_BIND_LAST - JAIL_FD_BIND + 1))

/* Where the program finds its end of the bridge (jail/runtime/README.md), if its plan has one. */
enum { JAIL_BRIDGE_IN = 3, JAIL_BRIDGE_OUT = 4, JAIL_PROGRAM_FDS = 5 };

/* A place in the arena. Offset 0 is always the empty string, so a zeroed reference is "". */
typedef uint32_t jail_ref;

/* BIND, TMPFS, PROC, SCRATCH, SUBMOUNT and WORKSPACE: restrictions put on the whole tree of the mount. */
enum {
    JAIL_MOUNT_READONLY = 1 << 0,
    JAIL_MOUNT_NOSUID = 1 << 1,
    JAIL_MOUNT_NODEV = 1 << 2,
    JAIL_MOUNT_NOEXEC = 1 << 3,
    JAIL_MOUNT_OPTIONAL =
        1 << 4, /* BIND: skip where the source does not exist; PROC: skip where the kernel refuses */
    JAIL_MOUNT_RECURSIVE = 1 << 5, /* BIND: take the mounts below the source along */
    JAIL_MOUNT_FILE = 1 << 6,      /* BIND, optional ones: the mount point is a file, not a directory */
    JAIL_PROC_SUBSET_PID = 1 << 7, /* PROC: only /proc/PID, nothing of the host */
    JAIL_PROC_HIDE = 1 << 8,       /* PROC: hide processes that may not be traced (PID 1) */
    JAIL_PROC_TEMPLATE =
        1 << 9, /* PROC: writable, for a template that writes id maps; its jobs mount their own */
};

/* Where the EGRESS step listens, on the lo of the jail. */
#define JAIL_EGRESS_PORT 3128

/* Directories in a scratch's root. SUBMOUNT steps put them where the policy wants them. */
#define SCRATCH_WORK "work" /* the working directory: input files in, output files out */
#define SCRATCH_TMP  "tmp"
#define SCRATCH_SHM  "shm"
#define SCRATCH_CODE "code" /* the script of a job from a template; read-only for the program */

/* SECCOMP: the calls that take a file lock, which the kernel charges to nobody. */
enum {
    JAIL_LOCK_SETLK = 1 << 0,  /* fcntl(F_SETLK) */
    JAIL_LOCK_SETLKW = 1 << 1, /* fcntl(F_SETLKW) */
    JAIL_LOCK_FLOCK = 1 << 2,  /* flock */
    JAIL_LOCK_ALL = (1 << 3) - 1,
};

/* A protection that only some processors offer. */
enum jail_speculation {
    JAIL_SPECULATION_LEAVE,
    JAIL_SPECULATION_IF_OFFERED,
    JAIL_SPECULATION_INSIST, /* no job without it, where it is needed */
};

struct jail_step {
    enum jail_step_kind kind;
    union {
        struct {
            uint32_t uid, gid; /* inside */
        } identity;
        struct {
            jail_ref name;
        } hostname;
        struct {
            uint64_t size_bytes, inodes;
        } root;
        struct {
            jail_ref path; /* absolute inside the jail; its parent exists already */
            uint32_t mode;
        } mkdir;
        struct {
            jail_ref path;
            uint32_t mode;
            bool from_input;  /* content from JAIL_FD_INPUT at `offset`, else from the arena at `content` */
            jail_ref content; /* not a string: `size_bytes` bytes */
            uint64_t offset, size_bytes;
        } file;
        struct {
            jail_ref target, path;
        } symlink;
        struct {
            jail_ref source, path; /* source: absolute on the host */
            uint32_t flags;
            uint32_t given; /* 0: the child opens the source; else the slot (enum jail_fd) of a mount of it */
        } bind;
        struct {
            jail_ref path;
            uint64_t size_bytes, inodes;
            uint32_t mode, flags;
        } tmpfs;
        struct {
            jail_ref path;
            uint32_t flags;
        } proc;
        struct {
            jail_ref path;
            uint32_t flags;
        } scratch;
        struct {
            jail_ref source, path; /* both inside the new root */
            uint32_t flags;
        } submount;
        struct {
            jail_ref path;
            uint32_t flags;
        } workspace;
        struct {
            jail_ref path; /* a directory of the root so far, over which the image lies meanwhile */
        } image;
        struct {
            uint64_t keep; /* bit n: capability number n stays (permitted, effective, inheritable, ambient) */
        } capabilities;
        struct {
            bool terminal; /* descriptor 0 is to be its controlling terminal */
        } session;
        struct {
            uint32_t mask;
        } umask;
        struct {
            jail_ref path;
        } workdir;
        struct {
            uint32_t resource;   /* RLIMIT_* */
            uint64_t soft, hard; /* UINT64_MAX: unlimited */
        } rlimit;
        struct {
            enum jail_speculation store_bypass, indirect_branch, core_sharing;
        } speculation;
        struct {
            jail_ref writable, devices; /* each: a run of NUL-terminated paths, one behind the other */
            uint32_t n_writable, n_devices;
            uint32_t abi; /* landlock_abi() */
        } landlock;
        struct {
            jail_ref bpf; /* `length` instructions of struct sock_filter */
            uint32_t length;
            bool notify;         /* the filter returns SECCOMP_RET_USER_NOTIF somewhere */
            uint32_t locks;      /* JAIL_LOCK_*: calls that it hands over to be counted, not denied */
            uint32_t file_locks; /* how many may be held */
        } seccomp;
        struct {
            jail_ref path;
            jail_ref argv,
                envp; /* each: a run of `argc`/`envc` NUL-terminated strings, one behind the other */
            uint32_t argc, envc;
        } exec;
    };
};

/* Limits that the parent enforces from outside. 0: none. */
struct jail_limits {
    uint64_t memory_bytes;  /* memory.max; without cgroups: the watch */
    uint64_t pids;          /* pids.max - 1 (PID 1 is ours), RLIMIT_NPROC */
    uint32_t cpu_percent;   /* cpu.max; 100 is one CPU; cgroup only */
    uint64_t cpu_ms;        /* CPU time of the whole jail */
    uint64_t timeout_ms;    /* wall clock, from exec */
    uint64_t scratch_bytes; /* scratch tmpfs */
    uint64_t scratch_inodes;
};

struct jail_plan {
    struct jail_step *steps;
    uint32_t n_steps, cap_steps;
    unsigned char *arena;
    uint32_t arena_size, arena_cap;
    uint64_t namespaces; /* CLONE_NEW* bits for clone3 */
    uint32_t uid, gid;   /* inside; what the idmap maps to the outer ids */
    struct jail_limits limits;
    bool failed; /* an allocation failed while building; plan_check() refuses it */
};

/* The newest version of Landlock's interface that we know, and so of a LANDLOCK step. */
#define JAIL_LANDLOCK_NEWEST 7u

/* Bytes of the name in an IMAGE step's path. */
#define JAIL_IMAGE_NAME_MAX 32u

#define JAIL_ARENA_MAX (16u << 20)

/* Building. Errors of allocation stick in `failed`; offsets returned then are 0. */
struct jail_plan *jail_plan_new(void);
struct jail_plan *jail_plan_copy(const struct jail_plan *plan); /* NULL: out of memory */
void jail_plan_free(struct jail_plan *plan);
jail_ref jail_plan_text(struct jail_plan *plan, const char *text);
jail_ref jail_plan_bytes(struct jail_plan *plan, const void *data, size_t size, size_t align);
/* Appends a zeroed step; the pointer is good until the next one. Never NULL (a static dummy once `failed`).
 */
struct jail_step *jail_plan_add(struct jail_plan *plan, enum jail_step_kind kind);

bool jail_plan_has(const struct jail_plan *plan, enum jail_step_kind kind);

/* The NUL-terminated string at `ref`. Safe between clone and exec. */
const char *jail_plan_string(const struct jail_plan *plan, jail_ref ref);

/* States the order rules in words and holds the plan to them, pure: ERR_SETUP with `step` set on the first
 * broken one. jail_spawn() calls it on every plan. */
int jail_plan_check(const struct jail_plan *plan, struct err *reterr);

/* The plan as bytes, to be sent to a template of the same build. */
int jail_plan_encode(const struct jail_plan *plan, struct buf *ret);
/* -EBADMSG where the bytes are not a whole plan of steps of known kinds. It still has to pass
 * jail_plan_check(). */
int jail_plan_decode(const void *data, size_t size, struct jail_plan **ret);

/* Stable text, one line per step: what `immure policy explain` prints and the golden tests compare. */
void jail_plan_print(const struct jail_plan *plan, struct buf *ret);

/* True for a resource limit that is a job's to choose; all others are the policy's. */
bool jail_step_is_wish(const struct jail_step *step);

const char *jail_step_word(enum jail_step_kind kind);
/* Where the step makes or mounts something; NULL: it does neither. The plan has been checked, or was built
 * here. */
const char *jail_step_path(const struct jail_plan *plan, const struct jail_step *step);
const char *jail_step_doc(enum jail_step_kind kind);
/* What is done before the first step. */
#define JAIL_NO_STEP UINT32_MAX
/* "step 7 (bind /usr)", numbered from 1, into `ret` of `size` bytes. */
void jail_plan_describe_step(const struct jail_plan *plan, uint32_t index, char *ret, size_t size);
