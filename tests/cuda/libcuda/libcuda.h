/* A libcuda.so.1 for tests: host memory stands for the device's, threads stand for streams. No CUDA header is needed.
 *
 * It answers as the driver does where a program can be wrong: no context, unknown or freed handles, copies over the end of an
 * allocation, memory that is full, waiting within a capture, errors that stay. What it is told (how much memory, which device,
 * which call shall fail) and what it counts lie in one mapped file, see state.c and tests/cuda/driver_file.py.
 */
#ifndef TEST_LIBCUDA_H
#define TEST_LIBCUDA_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct graph *CUgraph;
typedef struct graph *CUgraphExec;
typedef void (*CUhostFn)(void *);

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    PRIMARY_CONTEXT_ACTIVE = 708,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_ISOLATION = 905,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
};

/* Words of the mapped file; driver_file.py reads this list out of this header, so the names are the interface. */
enum word {
    MAGIC,
    /* what the tests set */
    MEMORY_LIMIT,
    COMPUTE_MAJOR,
    COMPUTE_MINOR,
    INTEGRATED,
    INIT_CODE,
    DRIVER_VERSION,
    DEVICE_COUNT,
    MULTIPROCESSORS,
    ASYNCHRONOUS, /* streams made from now on have threads; else work is done in the call that orders it */
    GATE,         /* while not 0, no stream with a thread begins another piece of work */
    STICKY,       /* not 0: what every call answers from now on */
    /* what is alive */
    CONTEXTS,
    STREAMS,
    EVENTS,
    ALLOCATIONS,
    ALLOCATED_BYTES,
    HOST_ALLOCATIONS,
    HOST_BYTES,
    REGISTERED,
    GRAPHS,
    GRAPH_EXECS,
    /* what happened */
    CALLS,
    COPIES_TO_DEVICE,
    COPIES_TO_HOST,
    BYTES_TO_DEVICE,
    BYTES_TO_HOST,
    PAGEABLE_ASYNC, /* asynchronous copies to or from memory that is not page-locked: the driver makes them wait */
    HOST_FUNCTIONS,
    CAPTURES,
    GRAPH_LAUNCHES,
    MEMORY_REFUSED,
    PEAK_BYTES,
    SPINNING_WAITS, /* waits that would have burnt a core */
    CONTEXTS_MADE,  /* by cuCtxCreate: contexts that are not the primary one */
    WORDS
};

/* state.c */
extern volatile int64_t *state;
void count(enum word what, int64_t by);
int64_t now_ns(void);
int enter(const char *name); /* what the call shall answer at once, else 0 */
int enter_in_context(const char *name);

#define ENTER() \
    do { \
        int code_ = enter(__func__); \
        if (code_) return code_; \
    } while (0)
#define ENTER_IN_CONTEXT() \
    do { \
        int code_ = enter_in_context(__func__); \
        if (code_) return code_; \
    } while (0)

/* objects.c: what is alive, so that a freed or foreign handle is seen */
enum kind { CONTEXT, STREAM, EVENT, DEVICE_MEMORY, HOST_MEMORY, REGISTERED_MEMORY, GRAPH, GRAPH_EXEC };
struct object {
    struct object *next;
    enum kind kind;
    uintptr_t at;
    size_t bytes;
    unsigned flags;
};
void keep(enum kind kind, const void *at, size_t bytes, unsigned flags);
int forget(enum kind kind, const void *at, struct object *was); /* 0 when there is no such object */
int alive(enum kind kind, const void *at);
int holds(enum kind kind, const void *at, size_t bytes, struct object *found); /* the object that this range lies in */

/* device.c */
CUcontext current_context(void);
int context_blocks(void); /* whether waits in the current context sleep rather than spin */

/* memory.c */
int page_locked(const void *at, size_t bytes);

/* work.c: pieces of work that a stream does or a graph keeps */
enum work { COPY, FILL, CALL, RECORD, WAIT };
struct call {
    CUhostFn function;
    CUhostFn gone; /* told when nobody will call `function` with this data any more */
    void *data;
    int users;
};
struct op {
    struct op *next;
    enum work work;
    void *to;
    const void *from;
    void *own; /* a copy of pageable memory, freed with the piece of work */
    size_t bytes;
    unsigned value, width;
    struct call *call;
    struct event *event;
    int64_t generation;
};
struct op *new_op(enum work work);
struct op *copy_op(const struct op *op);
void free_op(struct op *op);
void do_op(struct op *op);

/* event.c */
struct event {
    unsigned flags;
    int users; /* its maker and each piece of work that names it */
    int captured;
    int64_t wanted, done; /* how often it was recorded, and how many of those have come to pass */
    int64_t at_ns;
};
void use_event(struct event *event, int by);
void reach(struct event *event, int64_t generation);
int has_reached(struct event *event, int64_t generation);

/* stream.c */
struct capture {
    int mode; /* 0 global, 1 thread-local, 2 relaxed */
    int broken;
    pthread_t thread;
    struct op *first, **last;
};
int order(CUstream stream, struct op *op); /* takes the piece of work: it is done, queued or put into the capture */
int drain(CUstream stream);                /* waits until the stream has nothing to do */
void wait_for_all(int blocking_only);
int anything_pending(void);
int unsafe_in_capture(void); /* what a call that must not happen within a capture answers, else 0; the capture is spoilt */
int begin_capture(CUstream stream, int mode);
int end_capture(CUstream stream, struct op **first);

/* event.c, too: one lock for whatever a thread can wait for */
extern pthread_mutex_t waiting;
void changed(void);
void sleep_until_changed(void); /* with the lock held */

#endif
