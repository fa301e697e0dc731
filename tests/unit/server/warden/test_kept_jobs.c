/* server/warden/kept_jobs.c: whose jobs are kept, for how long, and who makes room. */
#include "server/warden/kept_jobs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/server/config.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"

static struct key_config keys[] = {{.sha256 = {1}}, {.sha256 = {2}}}, *pointers[] = {&keys[0], &keys[1]};
static const unsigned char stranger[SHA256_BYTES] = {3}, nobody[SHA256_BYTES];

struct place {
    struct server_config config;
    struct loop *loop;
    struct kept_jobs *kept;
    unsigned n;
};

static void open_place(struct place *place, uint32_t jobs, uint64_t bytes)
{
    *place = (struct place){.config = {.keys = pointers,
                                       .n_keys = 2,
                                       .kept_job_ttl_ms = 60000,
                                       .max_kept_jobs = jobs,
                                       .max_kept_bytes = bytes}};
    assert_int_equal(loop_new(&place->loop, NULL), 0);
    assert_int_equal(kept_jobs_new(place->loop, &place->config, &place->kept, NULL), 0);
}

static void close_place(struct place *place)
{
    kept_jobs_free(place->kept);
    loop_free(place->loop);
}

/* A front is only ever compared. */
static struct front *front_of(struct place *place)
{
    return (struct front *)(void *)place;
}

static int begin(struct place *place, size_t key, bool in_any_case, struct kept_job **ret)
{
    struct kept_row row = {0};
    snprintf(row.job_id, sizeof row.job_id, "job-%u", place->n++);
    struct err err = {0};
    int r = kept_job_new(place->kept, keys[key].sha256, &row, in_any_case, ret, &err);
    if (r == 0) {
        (*ret)->front = front_of(place);
        (*ret)->number = place->n;
    } else {
        assert_int_equal(err.kind, ERR_BUSY);
    }
    return r;
}

/* -> the name of one that has ended */
static const char *one(struct place *place, size_t key, size_t bytes)
{
    static char names[64][KEPT_ID_BYTES];
    char *name = names[place->n];
    struct kept_job *job;
    int fd = -1;
    assert_int_equal(begin(place, key, false, &job), 0);
    snprintf(name, sizeof names[0], "%s", job->row.job_id);
    assert_int_equal(io_memfd("reply", "x", 1, &fd), 0);
    kept_job_end(job, "success", fd, bytes);
    return name;
}

static struct kept_job *find(const struct place *place, size_t key, const char *name)
{
    return kept_job_find(place->kept, keys[key].sha256, name);
}

static void test_a_job_is_one_keys_own(void **state)
{
    (void)state;
    struct place place;
    struct kept_row rows[4];
    open_place(&place, 8, 100);
    const char *mine = one(&place, 0, 1), *other = one(&place, 1, 1);
    struct kept_job *running;
    assert_int_equal(begin(&place, 0, false, &running), 0);
    assert_non_null(find(&place, 0, mine));
    assert_null(find(&place, 1, mine));
    assert_null(kept_job_find(place.kept, stranger, mine));
    assert_null(kept_job_find(place.kept, nobody, mine));
    assert_int_equal(kept_jobs_list(place.kept, keys[0].sha256, rows, 4), 2);
    assert_string_equal(rows[0].status, "running"); /* latest first */
    assert_string_equal(rows[1].job_id, mine);
    assert_true(rows[1].expires_ms == rows[1].ended_ms + 60000);
    assert_int_equal(kept_jobs_list(place.kept, keys[0].sha256, rows, 1), 1);
    assert_int_equal(kept_jobs_list(place.kept, stranger, rows, 4), 0);
    assert_ptr_equal(kept_job_of_front(place.kept, front_of(&place), running->number), running);
    assert_null(kept_job_of_front(place.kept, front_of(&place), 1)); /* has ended */
    assert_null(kept_job_of_front(place.kept, NULL, running->number));
    kept_jobs_lose_front(place.kept, front_of(&place));
    assert_string_equal(running->row.status, "lost");
    assert_int_equal(running->reply_fd, -1);
    assert_string_equal(find(&place, 1, other)->row.status, "success");
    close_place(&place);
}

static void test_who_makes_room(void **state)
{
    (void)state;
    struct place place;
    struct kept_job *running[3];
    open_place(&place, 3, 100);
    const char *first = one(&place, 0, 10), *second = one(&place, 0, 10), *third = one(&place, 0, 10);
    const char *other = one(&place, 1, 10); /* within its half: who has more makes room */
    assert_null(find(&place, 0, first));
    const char *large = one(&place, 1, 90); /* it and two others are too much: its own goes first */
    assert_null(find(&place, 1, other));
    assert_non_null(find(&place, 0, second));
    assert_non_null(find(&place, 0, third));
    assert_int_equal(find(&place, 1, large)->reply_fd, -1);
    kept_job_drop(find(&place, 1, large));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(begin(&place, 0, false, &running[i]), 0);
    }
    assert_null(find(&place, 0, third));
    struct kept_job *another;
    assert_true(begin(&place, 1, false, &another) < 0);
    assert_int_equal(begin(&place, 1, true, &another), 0);
    close_place(&place);
}

static unsigned n_cancelled;

static void cancel(struct front *front, uint64_t number)
{
    (void)front;
    n_cancelled += number > 0;
}

static void test_a_key_that_is_gone(void **state)
{
    (void)state;
    struct place place;
    struct kept_job *running;
    open_place(&place, 8, 100);
    const char *mine = one(&place, 0, 1), *other = one(&place, 1, 1);
    assert_int_equal(begin(&place, 1, false, &running), 0);
    struct server_config one_key = place.config;
    one_key.n_keys = 1;
    kept_jobs_configure(place.kept, &one_key, cancel);
    assert_int_equal(n_cancelled, 1);
    assert_non_null(find(&place, 0, mine));
    kept_jobs_configure(place.kept, &place.config, cancel);
    assert_null(find(&place, 1, other)); /* it does not come back */
    struct server_config open = {.open = true, .max_kept_jobs = 8, .max_kept_bytes = 100};
    kept_jobs_configure(place.kept, &open, cancel);
    assert_null(find(&place, 0, mine));
    close_place(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_is_one_keys_own),
        cmocka_unit_test(test_who_makes_room),
        cmocka_unit_test(test_a_key_that_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
