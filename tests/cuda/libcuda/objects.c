/* What is alive. The driver knows freed and foreign handles too; here one list an address range does. */
#include "libcuda.h"

#include <stdlib.h>

#define BUCKETS 1024

static struct object *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const enum word counted[] = {
    [CONTEXT] = CONTEXTS,
    [STREAM] = STREAMS,
    [EVENT] = EVENTS,
    [DEVICE_MEMORY] = ALLOCATIONS,
    [HOST_MEMORY] = HOST_ALLOCATIONS,
    [REGISTERED_MEMORY] = REGISTERED,
    [GRAPH] = GRAPHS,
    [GRAPH_EXEC] = GRAPH_EXECS,
};

static struct object **bucket(uintptr_t at)
{
    return &buckets[(at >> 6) * 0x9E3779B97F4A7C15u >> 54];
}

static void count_object(const struct object *object, int by)
{
    count(counted[object->kind], by);
    if (object->kind == DEVICE_MEMORY) count(ALLOCATED_BYTES, by * (int64_t)object->bytes);
    if (object->kind == HOST_MEMORY) count(HOST_BYTES, by * (int64_t)object->bytes);
}

void keep(enum kind kind, const void *at, size_t bytes, unsigned flags)
{
    struct object *object = malloc(sizeof *object);
    *object = (struct object){.kind = kind, .at = (uintptr_t)at, .bytes = bytes, .flags = flags};
    pthread_mutex_lock(&lock);
    struct object **head = bucket(object->at);
    object->next = *head;
    *head = object;
    count_object(object, 1);
    pthread_mutex_unlock(&lock);
}

int forget(enum kind kind, const void *at, struct object *was)
{
    struct object *found = NULL;
    pthread_mutex_lock(&lock);
    for (struct object **link = bucket((uintptr_t)at); *link; link = &(*link)->next) {
        if ((*link)->kind != kind || (*link)->at != (uintptr_t)at) continue;
        found = *link;
        *link = found->next;
        count_object(found, -1);
        break;
    }
    pthread_mutex_unlock(&lock);
    if (!found) return 0;
    if (was) *was = *found;
    free(found);
    return 1;
}

int alive(enum kind kind, const void *at)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (struct object *object = *bucket((uintptr_t)at); object && !found; object = object->next)
        found = object->kind == kind && object->at == (uintptr_t)at;
    pthread_mutex_unlock(&lock);
    return found;
}

static int lies_in(const struct object *object, enum kind kind, uintptr_t at, size_t bytes)
{
    return object->kind == kind && at >= object->at && bytes <= object->bytes && at - object->at <= object->bytes - bytes;
}

int holds(enum kind kind, const void *at, size_t bytes, struct object *found)
{
    int result = 0;
    pthread_mutex_lock(&lock);
    for (int number = 0; number < BUCKETS && !result; number++)
        for (struct object *object = buckets[number]; object && !result; object = object->next)
            if (lies_in(object, kind, (uintptr_t)at, bytes)) {
                result = 1;
                if (found) *found = *object;
            }
    pthread_mutex_unlock(&lock);
    return result;
}
