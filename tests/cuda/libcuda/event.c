/* Events, and the one lock and condition that all waiting goes by. */
#include "libcuda.h"

#include <stdlib.h>
#include <time.h>

#define BLOCKING_SYNC 1u
#define DISABLE_TIMING 2u
#define PATIENCE_NS 5000000 /* what the tests write into the file wakes nobody */

pthread_mutex_t waiting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;

void changed(void)
{
    pthread_cond_broadcast(&news);
}

void sleep_until_changed(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PATIENCE_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&news, &waiting, &until);
}

void use_event(struct event *event, int by)
{
    if (__atomic_add_fetch(&event->users, by, __ATOMIC_SEQ_CST) == 0) free(event);
}

void reach(struct event *event, int64_t generation)
{
    pthread_mutex_lock(&waiting);
    event->at_ns = now_ns();
    if (event->done < generation) event->done = generation;
    changed();
    pthread_mutex_unlock(&waiting);
}

int has_reached(struct event *event, int64_t generation)
{
    return event->done >= generation;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    ENTER_IN_CONTEXT();
    CUevent made = calloc(1, sizeof *made);
    made->flags = flags;
    made->users = 1;
    keep(EVENT, made, 0, flags);
    *event = made;
    return SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    ENTER();
    if (!forget(EVENT, event, NULL)) return INVALID_HANDLE;
    use_event(event, -1);
    return SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER_IN_CONTEXT();
    if (!alive(EVENT, event)) return INVALID_HANDLE;
    struct op *op = new_op(RECORD);
    use_event(event, 1);
    op->event = event;
    pthread_mutex_lock(&waiting);
    op->generation = ++event->wanted;
    event->captured = 0;
    pthread_mutex_unlock(&waiting);
    return order(stream, op);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    ENTER_IN_CONTEXT();
    if (flags) return INVALID_VALUE;
    if (!alive(EVENT, event)) return INVALID_HANDLE;
    struct op *op = new_op(WAIT);
    use_event(event, 1);
    op->event = event;
    pthread_mutex_lock(&waiting);
    op->generation = event->wanted;
    pthread_mutex_unlock(&waiting);
    return order(stream, op);
}

static int look(CUevent event)
{
    if (!alive(EVENT, event)) return INVALID_HANDLE;
    if (event->captured) return CAPTURED_EVENT;
    return unsafe_in_capture();
}

CUresult cuEventQuery(CUevent event)
{
    ENTER();
    int code = look(event);
    if (code) return code;
    pthread_mutex_lock(&waiting);
    int reached = has_reached(event, event->wanted);
    pthread_mutex_unlock(&waiting);
    return reached ? SUCCESS : NOT_READY;
}

CUresult cuEventSynchronize(CUevent event)
{
    ENTER();
    int code = look(event);
    if (code) return code;
    if (!(event->flags & BLOCKING_SYNC)) count(SPINNING_WAITS, 1);
    pthread_mutex_lock(&waiting);
    int64_t generation = event->wanted;
    while (!has_reached(event, generation) && !state[STICKY]) sleep_until_changed();
    pthread_mutex_unlock(&waiting);
    return (int)state[STICKY];
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to)
{
    ENTER();
    if (!alive(EVENT, from) || !alive(EVENT, to)) return INVALID_HANDLE;
    if ((from->flags | to->flags) & DISABLE_TIMING || !from->wanted || !to->wanted) return INVALID_HANDLE;
    if (!has_reached(from, from->wanted) || !has_reached(to, to->wanted)) return NOT_READY;
    *milliseconds = (float)(to->at_ns - from->at_ns) / 1e6f;
    return SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent from, CUevent to)
{
    return cuEventElapsedTime(milliseconds, from, to);
}
