/* Pieces of work: what a stream does in its turn, and what a graph keeps to have done again. */
#include "libcuda.h"

#include <stdlib.h>
#include <string.h>

struct op *new_op(enum work work)
{
    struct op *op = calloc(1, sizeof *op);
    op->work = work;
    return op;
}

struct op *copy_op(const struct op *op)
{
    struct op *made = malloc(sizeof *made);
    *made = *op;
    made->next = NULL;
    if (op->own) {
        made->own = malloc(op->bytes ? op->bytes : 1);
        made->from = memcpy(made->own, op->own, op->bytes);
    }
    if (op->call) __atomic_add_fetch(&op->call->users, 1, __ATOMIC_SEQ_CST);
    if (op->event) use_event(op->event, 1);
    return made;
}

void free_op(struct op *op)
{
    if (op->call && __atomic_sub_fetch(&op->call->users, 1, __ATOMIC_SEQ_CST) == 0) {
        if (op->call->gone) op->call->gone(op->call->data);
        free(op->call);
    }
    if (op->event) use_event(op->event, -1);
    free(op->own);
    free(op);
}

static void wait_for(struct event *event, int64_t generation)
{
    pthread_mutex_lock(&waiting);
    while (!has_reached(event, generation) && !state[STICKY]) sleep_until_changed();
    pthread_mutex_unlock(&waiting);
}

/* After an error that stays nothing is computed any more, but nobody waits for ever either. */
void do_op(struct op *op)
{
    int broken = state[STICKY] != 0;
    if (op->work == RECORD) reach(op->event, op->generation);
    if (broken) return;
    if (op->work == COPY) memmove(op->to, op->from, op->bytes);
    if (op->work == FILL)
        for (size_t at = 0; at < op->bytes; at++) memcpy((char *)op->to + at * op->width, &op->value, op->width);
    if (op->work == WAIT) wait_for(op->event, op->generation);
    if (op->work == CALL) {
        count(HOST_FUNCTIONS, 1);
        op->call->function(op->call->data);
    }
}

static int order_call(CUstream stream, CUhostFn function, CUhostFn gone, void *data)
{
    if (!function) return INVALID_VALUE;
    struct op *op = new_op(CALL);
    op->call = malloc(sizeof *op->call);
    *op->call = (struct call){.function = function, .gone = gone, .data = data, .users = 1};
    return order(stream, op);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    ENTER_IN_CONTEXT();
    return order_call(stream, function, NULL, data);
}

/* The same for who must know when the data is not needed any more: a graph may call the function often. */
CUresult test_libcuda_launch(CUstream stream, CUhostFn function, CUhostFn gone, void *data)
{
    ENTER_IN_CONTEXT();
    return order_call(stream, function, gone, data);
}
