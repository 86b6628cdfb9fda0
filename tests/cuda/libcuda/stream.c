/* Streams: where the tests want it a thread each, which does the work in order and beside the others'; else done when ordered. */
#include "libcuda.h"

#include <stdlib.h>
#include <time.h>

#define NON_BLOCKING 1u
#define GATE_NS 1000000

struct stream {
    struct stream *next;
    unsigned flags;
    int has_thread, closing;
    int64_t pending;
    struct op *first, **last;
    struct capture *capture;
};

static struct stream *streams; /* under the lock `waiting`, as all of the fields above */

static int is_default(CUstream stream)
{
    return (uintptr_t)stream <= 2; /* NULL, the legacy one, the thread's own */
}

/* -- the thread ---------------------------------------------------------------------------------------------------- */

static void pass_gate(void)
{
    const struct timespec pause = {0, GATE_NS};
    while (state[GATE] && !state[STICKY]) nanosleep(&pause, NULL);
}

static struct op *next_op(struct stream *stream)
{
    pthread_mutex_lock(&waiting);
    while (!stream->first && !stream->closing) sleep_until_changed();
    struct op *op = stream->first;
    if (op) stream->first = op->next;
    if (op && !stream->first) stream->last = &stream->first;
    pthread_mutex_unlock(&waiting);
    return op;
}

static void *work_off(void *given)
{
    struct stream *stream = given;
    struct op *op;
    while ((op = next_op(stream))) {
        pass_gate();
        do_op(op);
        free_op(op);
        pthread_mutex_lock(&waiting);
        stream->pending--;
        changed();
        pthread_mutex_unlock(&waiting);
    }
    free(stream);
    return NULL;
}

static int start_thread(struct stream *stream)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int failed = pthread_create(&thread, &attributes, work_off, stream);
    pthread_attr_destroy(&attributes);
    return failed ? OUT_OF_MEMORY : SUCCESS;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    ENTER_IN_CONTEXT();
    CUstream made = calloc(1, sizeof *made);
    made->flags = flags;
    made->last = &made->first;
    made->has_thread = state[ASYNCHRONOUS] != 0;
    if (made->has_thread && start_thread(made)) {
        free(made);
        return OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&waiting);
    made->next = streams;
    streams = made;
    pthread_mutex_unlock(&waiting);
    keep(STREAM, made, 0, flags);
    *stream = made;
    return SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    (void)priority;
    return cuStreamCreate(stream, flags);
}

static void unlink_stream(CUstream stream)
{
    for (struct stream **link = &streams; *link; link = &(*link)->next)
        if (*link == stream) {
            *link = stream->next;
            return;
        }
}

/* What it still has to do is done. */
CUresult cuStreamDestroy_v2(CUstream stream)
{
    ENTER();
    if (!forget(STREAM, stream, NULL)) return INVALID_HANDLE;
    pthread_mutex_lock(&waiting);
    unlink_stream(stream);
    struct capture *capture = stream->capture;
    stream->capture = NULL;
    int has_thread = stream->has_thread;
    stream->closing = 1;
    changed();
    pthread_mutex_unlock(&waiting);
    if (capture) {
        while (capture->first) {
            struct op *op = capture->first;
            capture->first = op->next;
            free_op(op);
        }
        free(capture);
    }
    if (!has_thread) free(stream);
    return SUCCESS;
}

/* -- work ---------------------------------------------------------------------------------------------------------- */

static int put_into_capture(CUstream stream, struct op *op)
{
    struct capture *capture = stream->capture;
    if (op->work == WAIT) {
        capture->broken = 1; /* it would depend on work that the graph does not hold */
        return CAPTURE_ISOLATION;
    }
    if (op->work == RECORD) op->event->captured = 1;
    *capture->last = op;
    capture->last = &op->next;
    return SUCCESS;
}

static int put(CUstream stream, struct op *op, int *at_once)
{
    if (stream->capture) return put_into_capture(stream, op);
    if (!stream->has_thread) {
        *at_once = 1;
        return SUCCESS;
    }
    *stream->last = op;
    stream->last = &op->next;
    stream->pending++;
    changed();
    return SUCCESS;
}

int order(CUstream stream, struct op *op)
{
    int code = SUCCESS, at_once = 0;
    if (is_default(stream)) {
        wait_for_all(1);
        at_once = 1;
    } else if (!alive(STREAM, stream)) {
        code = INVALID_HANDLE;
    } else {
        pthread_mutex_lock(&waiting);
        code = put(stream, op, &at_once);
        pthread_mutex_unlock(&waiting);
    }
    if (at_once) do_op(op);
    if (at_once || code) free_op(op);
    return code ? code : at_once ? (int)state[STICKY] : SUCCESS;
}

/* -- waiting ------------------------------------------------------------------------------------------------------- */

static int all_idle(int blocking_only)
{
    for (struct stream *stream = streams; stream; stream = stream->next)
        if (stream->pending && !(blocking_only && stream->flags & NON_BLOCKING)) return 0;
    return 1;
}

void wait_for_all(int blocking_only)
{
    pthread_mutex_lock(&waiting);
    while (!all_idle(blocking_only) && !state[STICKY]) sleep_until_changed();
    pthread_mutex_unlock(&waiting);
}

int anything_pending(void)
{
    pthread_mutex_lock(&waiting);
    int idle = all_idle(0);
    pthread_mutex_unlock(&waiting);
    return !idle;
}

int drain(CUstream stream)
{
    if (is_default(stream)) {
        wait_for_all(1);
        return (int)state[STICKY];
    }
    if (!alive(STREAM, stream)) return INVALID_HANDLE;
    int code = SUCCESS;
    pthread_mutex_lock(&waiting);
    if (stream->capture) {
        stream->capture->broken = 1;
        code = CAPTURE_UNSUPPORTED;
    }
    while (!code && stream->pending && !state[STICKY]) sleep_until_changed();
    pthread_mutex_unlock(&waiting);
    return code ? code : (int)state[STICKY];
}

CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER_IN_CONTEXT();
    int code = unsafe_in_capture();
    if (code) return code;
    if (!context_blocks()) count(SPINNING_WAITS, 1);
    return drain(stream);
}

CUresult cuStreamQuery(CUstream stream)
{
    ENTER_IN_CONTEXT();
    int code = unsafe_in_capture();
    if (code) return code;
    if (is_default(stream)) return anything_pending() ? NOT_READY : SUCCESS;
    if (!alive(STREAM, stream)) return INVALID_HANDLE;
    pthread_mutex_lock(&waiting);
    int64_t pending = stream->pending;
    pthread_mutex_unlock(&waiting);
    return pending ? NOT_READY : SUCCESS;
}

/* -- captures ------------------------------------------------------------------------------------------------------ */

/* A global capture forbids it to all threads, a thread-local one to its own, a relaxed one to nobody. */
int unsafe_in_capture(void)
{
    int code = SUCCESS;
    pthread_mutex_lock(&waiting);
    for (struct stream *stream = streams; stream; stream = stream->next) {
        struct capture *capture = stream->capture;
        if (!capture || capture->mode == 2) continue;
        if (capture->mode == 1 && !pthread_equal(capture->thread, pthread_self())) continue;
        capture->broken = 1;
        code = CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&waiting);
    return code;
}

int begin_capture(CUstream stream, int mode)
{
    if (is_default(stream)) return CAPTURE_UNSUPPORTED;
    if (!alive(STREAM, stream)) return INVALID_HANDLE;
    if (mode < 0 || mode > 2) return INVALID_VALUE;
    struct capture *capture = calloc(1, sizeof *capture);
    capture->mode = mode;
    capture->thread = pthread_self();
    capture->last = &capture->first;
    pthread_mutex_lock(&waiting);
    int busy = stream->capture != NULL;
    if (!busy) stream->capture = capture;
    pthread_mutex_unlock(&waiting);
    if (busy) free(capture);
    return busy ? CAPTURE_UNSUPPORTED : SUCCESS;
}

int end_capture(CUstream stream, struct op **first)
{
    *first = NULL;
    if (is_default(stream) || !alive(STREAM, stream)) return INVALID_HANDLE;
    pthread_mutex_lock(&waiting);
    struct capture *capture = stream->capture;
    int code = !capture ? INVALID_VALUE
               : capture->mode != 2 && !pthread_equal(capture->thread, pthread_self()) ? CAPTURE_WRONG_THREAD
                                                                                         : SUCCESS;
    if (!code) stream->capture = NULL;
    pthread_mutex_unlock(&waiting);
    if (code) return code;
    *first = capture->first;
    code = capture->broken ? CAPTURE_INVALIDATED : SUCCESS;
    free(capture);
    return code;
}

CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
    ENTER();
    if (is_default(stream)) {
        *status = 0;
        return SUCCESS;
    }
    if (!alive(STREAM, stream)) return INVALID_HANDLE;
    pthread_mutex_lock(&waiting);
    *status = stream->capture ? (stream->capture->broken ? 2 : 1) : 0;
    pthread_mutex_unlock(&waiting);
    return SUCCESS;
}
