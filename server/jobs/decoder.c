/* Large bodies are decoded in a thread of their own, one after another. Runs in the front, whose loop is
 * otherwise its only thread: it goes on meanwhile, so that nobody else's request, event or deadline waits for
 * somebody's megabytes.
 *
 * The next body is of the key that has waited longest since its last one, so that a key's large request does
 * not wait for all of another's.
 *
 * Between the two threads there is one struct decoding, `at_work`. Who has it: the loop sets it and wakes the
 * thread; the thread, when it has filled in `reading`, sets `finished` and wakes the loop. Nothing else is
 * shared that either of them writes. */
#include "server/jobs/decoder.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"

/* JSON nests no deeper than JSON_DEPTH_MAX. */
#define STACK_BYTES (1024 * 1024)

struct decoder {
    const struct server_config *config;
    void (*done)(void *owner, struct body_reading *reading);
    struct loop_source *source;
    int event_fd; /* finished */
    struct decoding *first, *last;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct decoding *at_work; /* from here on under the lock */
    bool started, finished, stop;
    size_t n_accounts; /* these are the main thread's again */
    uint64_t *last_ns; /* of each account: its last body */
};

static void *work(void *arg)
{
    struct decoder *decoder = arg;
    const uint64_t one = 1;
    pthread_mutex_lock(&decoder->lock);
    decoder->started = true;
    pthread_cond_signal(&decoder->wake);
    while (!decoder->stop) {
        if (!decoder->at_work || decoder->finished) {
            pthread_cond_wait(&decoder->wake, &decoder->lock);
            continue;
        }
        struct decoding *decoding = decoder->at_work;
        pthread_mutex_unlock(&decoder->lock);
        body_read(decoding->door, decoding->text, decoding->size, decoder->config, &decoding->reading);
        pthread_mutex_lock(&decoder->lock);
        decoder->finished = true;
        /* Its counter is far from full. */
        (void)!write(decoder->event_fd, &one, sizeof one);
    }
    pthread_mutex_unlock(&decoder->lock);
    return NULL;
}

static void decoding_free(struct decoding *decoding)
{
    if (decoding) {
        body_clear(&decoding->reading);
        buf_free(&decoding->kept);
        free(decoding);
    }
}

static void unlink_waiting(struct decoding *decoding)
{
    struct decoder *decoder = decoding->decoder;
    *(decoding->previous ? &decoding->previous->next : &decoder->first) = decoding->next;
    *(decoding->next ? &decoding->next->previous : &decoder->last) = decoding->previous;
}

static struct decoding *choose(const struct decoder *decoder)
{
    struct decoding *chosen = decoder->first;
    for (struct decoding *each = chosen; each; each = each->next) {
        if (decoder->last_ns[each->account] < decoder->last_ns[chosen->account]) {
            chosen = each;
        }
    }
    return chosen;
}

static void begin_next(struct decoder *decoder)
{
    struct decoding *next = choose(decoder);
    pthread_mutex_lock(&decoder->lock);
    if (next && !decoder->at_work) {
        unlink_waiting(next);
        decoder->last_ns[next->account] = clock_now_ns();
        decoder->at_work = next;
        pthread_cond_signal(&decoder->wake);
    }
    pthread_mutex_unlock(&decoder->lock);
}

/* NULL: it is not finished. */
static struct decoding *take_finished(struct decoder *decoder)
{
    pthread_mutex_lock(&decoder->lock);
    struct decoding *decoding = decoder->finished ? TAKE_PTR(decoder->at_work) : NULL;
    decoder->finished = false;
    pthread_mutex_unlock(&decoder->lock);
    return decoding;
}

static void on_finished(void *arg, uint32_t events)
{
    (void)events;
    struct decoder *decoder = arg;
    uint64_t times;
    (void)!read(decoder->event_fd, &times, sizeof times);
    struct decoding *decoding = take_finished(decoder);
    begin_next(decoder);
    if (decoding && decoding->owner) {
        decoder->done(decoding->owner, &decoding->reading);
    }
    decoding_free(decoding);
}

/* What the C library does once in a new thread, it cannot do behind the front's filter. */
static void wait_for_start(struct decoder *decoder)
{
    pthread_mutex_lock(&decoder->lock);
    while (!decoder->started) {
        pthread_cond_wait(&decoder->wake, &decoder->lock);
    }
    pthread_mutex_unlock(&decoder->lock);
}

/* Signals are the loop's. Both threads have one heap: what one allocates the other frees, all the time. */
static int make_thread(struct decoder *decoder)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    mallopt(M_ARENA_MAX, 1);
    sigfillset(&all);
    pthread_attr_init(&attributes);
    int r = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = r != 0 ? r : pthread_create(&decoder->thread, &attributes, work, decoder);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    decoder->has_thread = r == 0;
    if (decoder->has_thread) {
        wait_for_start(decoder);
    }
    return r;
}

int decoder_set_accounts(struct decoder *decoder, size_t n_accounts)
{
    uint64_t *last_ns = reallocarray(decoder->last_ns, n_accounts, sizeof *last_ns);
    if (!last_ns) {
        return -ENOMEM;
    }
    memset(last_ns + decoder->n_accounts, 0, (n_accounts - decoder->n_accounts) * sizeof *last_ns);
    decoder->last_ns = last_ns;
    decoder->n_accounts = n_accounts;
    return 0;
}

int decoder_new(struct loop *loop, const struct server_config *config,
                void (*done)(void *owner, struct body_reading *reading), struct decoder **ret,
                struct err *reterr)
{
    struct decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder || decoder_set_accounts(decoder, config->n_accounts) < 0) {
        free(decoder);
        return err_errno(reterr, ENOMEM, "making the decoder");
    }
    decoder->config = config;
    decoder->done = done;
    pthread_mutex_init(&decoder->lock, NULL);
    pthread_cond_init(&decoder->wake, NULL);
    decoder->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = decoder->event_fd < 0
                ? err_errno(reterr, errno, "making the decoder's eventfd")
                : loop_add(loop, decoder->event_fd, EPOLLIN, on_finished, decoder, &decoder->source, reterr);
    int code = r < 0 ? 0 : make_thread(decoder);
    if (r < 0 || code != 0) {
        decoder_free(decoder);
        return r < 0 ? r : err_errno(reterr, code, "making the decoder's thread");
    }
    *ret = decoder;
    return 0;
}

void decoder_free(struct decoder *decoder)
{
    if (!decoder) {
        return;
    }
    if (decoder->has_thread) {
        pthread_mutex_lock(&decoder->lock);
        decoder->stop = true;
        pthread_cond_signal(&decoder->wake);
        pthread_mutex_unlock(&decoder->lock);
        pthread_join(decoder->thread, NULL);
    }
    decoding_free(decoder->at_work);
    while (decoder->first) {
        struct decoding *decoding = decoder->first;
        unlink_waiting(decoding);
        decoding_free(decoding);
    }
    loop_remove(decoder->source);
    fd_closep(&decoder->event_fd);
    pthread_cond_destroy(&decoder->wake);
    pthread_mutex_destroy(&decoder->lock);
    free(decoder->last_ns);
    free(decoder);
}

struct decoding *decoder_wait(struct decoder *decoder, unsigned account, const struct door *door,
                              const char *text, size_t size, void *owner)
{
    struct decoding *decoding = calloc(1, sizeof *decoding);
    if (!decoding) {
        return NULL;
    }
    *decoding = (struct decoding){.decoder = decoder,
                                  .previous = decoder->last,
                                  .account = account,
                                  .door = door,
                                  .text = text,
                                  .size = size,
                                  .kept = BUF_INIT,
                                  .owner = owner,
                                  .reading = BODY_READING_NONE};
    *(decoder->last ? &decoder->last->next : &decoder->first) = decoding;
    decoder->last = decoding;
    begin_next(decoder);
    return decoding;
}

void decoder_leave(struct decoding *decoding, struct buf *text)
{
    struct decoder *decoder = decoding->decoder;
    pthread_mutex_lock(&decoder->lock);
    bool at_work = decoder->at_work == decoding;
    pthread_mutex_unlock(&decoder->lock);
    if (at_work) {
        decoding->owner = NULL;
        decoding->kept = *text;
        *text = BUF_INIT;
    } else {
        unlink_waiting(decoding);
        decoding_free(decoding);
    }
}
