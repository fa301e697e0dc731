/* Learns in the template which pages jobs touch, and fetches them in processes that are about to be parked.
 *
 * Until a page of the template is written to, it is shared with all its forks; the write makes a copy, and
 * that is most of what a short job costs. Most of those pages are the same for every job: the interpreter's
 * own state, the functions of the common modules, the beginning of the heap. So the template watches forks of
 * itself run what every program does, and then a usual one, and later forks get these pages before their job
 * comes, the former first: there is not room for all. Nothing that a program could see depends on it. */
#include "jail/runtime/python/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/io.h"

/* Together with what else a parked process has of its own, they stay below 2 MiB. */
#define WRITTEN_PAGES_MAX 460

/* Documentation/admin-guide/mm/pagemap.rst */
#define PAGEMAP_PRESENT   (1ull << 63)
#define PAGEMAP_FILE      (1ull << 61)
#define PAGEMAP_EXCLUSIVE (1ull << 56)

#define PAGEMAP_CHUNK 512

struct finding {
    struct pages *pages;
    size_t page_bytes, written_pages;
    size_t n_known; /* runs that an earlier job has brought */
};

static bool is_known(const struct finding *finding, uintptr_t page, bool written)
{
    for (size_t i = 0; i < finding->n_known; i++) {
        const struct page_run *run = &finding->pages->runs[i];
        if (page - run->begin < run->size_bytes && (run->written || !written)) {
            return true;
        }
    }
    return false;
}

static void add_page(struct finding *finding, uintptr_t page, bool written)
{
    struct pages *pages = finding->pages;
    if (is_known(finding, page, written)) {
        return;
    }
    struct page_run *last = pages->n_runs > finding->n_known ? &pages->runs[pages->n_runs - 1] : NULL;
    if (written && ++finding->written_pages > WRITTEN_PAGES_MAX) {
        return;
    }
    if (last && last->written == written && last->begin + last->size_bytes == page) {
        last->size_bytes += finding->page_bytes;
    } else if (pages->n_runs < PAGE_RUNS_MAX) {
        pages->runs[pages->n_runs++] = (struct page_run){page, finding->page_bytes, written};
    }
}

/* A page that only we have, in a mapping that we may write to, is one that we have written to since the fork.
 */
static void look_at_mapping(struct finding *finding, int pagemap, uintptr_t begin, uintptr_t end,
                            bool writable)
{
    for (uintptr_t at = begin; at < end; at += PAGEMAP_CHUNK * finding->page_bytes) {
        uint64_t entries[PAGEMAP_CHUNK];
        ssize_t n =
            pread(pagemap, entries, sizeof entries, (off_t)(at / finding->page_bytes * sizeof entries[0]));
        for (size_t i = 0; n > 0 && i < (size_t)n / sizeof entries[0]; i++) {
            uintptr_t page = at + i * finding->page_bytes;
            bool is_file = entries[i] & PAGEMAP_FILE;
            if (page < end && entries[i] & PAGEMAP_PRESENT &&
                (writable ? !is_file && entries[i] & PAGEMAP_EXCLUSIVE : is_file)) {
                add_page(finding, page, writable);
            }
        }
    }
}

/* In the child that has run a job: its pages. */
static void look_at_self(struct pages *pages)
{
    CLEANUP(file_closep) FILE *maps = fopen("/proc/self/maps", "re");
    CLEANUP(fd_closep) int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    struct finding finding = {
        .pages = pages, .page_bytes = (size_t)sysconf(_SC_PAGESIZE), .n_known = pages->n_runs};
    for (size_t i = 0; i < pages->n_runs; i++) {
        finding.written_pages += pages->runs[i].written ? pages->runs[i].size_bytes / finding.page_bytes : 0;
    }
    char line[512], read, write, execute, shared;
    uintptr_t begin, end;
    while (maps && pagemap >= 0 && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %c%c%c%c", &begin, &end, &read, &write, &execute,
                   &shared) == 6 &&
            read == 'r' && shared == 'p') {
            look_at_mapping(&finding, pagemap, begin, end, write == 'w');
        }
    }
}

/* Only its own memory and a pipe: forks of the template must never share what they can write to. */
static void __attribute__((noreturn))
watch(void (*job)(void *argument), void *argument, struct pages *pages, int to)
{
    size_t n_known = pages->n_runs;
    job(argument);
    look_at_self(pages);
    io_write_full(to, pages->runs + n_known, (pages->n_runs - n_known) * sizeof *pages->runs);
    _exit(0);
}

void pages_learn(void (*job)(void *argument), void *argument, struct pages *pages)
{
    if (!pages->runs) {
        void *memory = mmap(NULL, PAGE_RUNS_MAX * sizeof(struct page_run), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pages->runs = memory == MAP_FAILED ? NULL : memory;
    }
    int ends[2];
    if (!pages->runs || pipe2(ends, O_CLOEXEC) < 0) {
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        watch(job, argument, pages, ends[1]);
    }
    close(ends[1]);
    ssize_t n = io_read_full(ends[0], pages->runs + pages->n_runs,
                             (PAGE_RUNS_MAX - pages->n_runs) * sizeof *pages->runs);
    close(ends[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    pages->n_runs += n > 0 ? (size_t)n / sizeof *pages->runs : 0;
}

void pages_fetch(const struct pages *pages, size_t n_runs)
{
    for (size_t i = 0; i < n_runs; i++) {
        const struct page_run *run = &pages->runs[i];
        madvise((void *)run->begin, run->size_bytes, run->written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    }
}
