/* Memory: the device's, page-locked, managed; and copies, which must lie within an allocation. */
#include "libcuda.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 512
#define FRESH 0xA5 /* nothing may depend on what new memory holds */
#define HOST_MAPPED 2u

/* Freed while a stream is at work: the driver would wait, but may be called with Python's lock held that the work needs. */
static struct grave {
    struct grave *next;
    void *memory;
} *graves;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void bury(void *memory)
{
    struct grave *grave = malloc(sizeof *grave);
    grave->memory = memory;
    pthread_mutex_lock(&lock);
    grave->next = graves;
    graves = grave;
    while (graves && !anything_pending()) {
        grave = graves;
        graves = grave->next;
        free(grave->memory);
        free(grave);
    }
    pthread_mutex_unlock(&lock);
}

static int64_t used(void)
{
    return state[ALLOCATED_BYTES] + (state[INTEGRATED] ? state[HOST_BYTES] : 0);
}

/* On a board that shares one memory page-locked memory is the device's, too. */
static int take(enum kind kind, size_t bytes, unsigned flags, void **memory)
{
    int code = unsafe_in_capture();
    if (code) return code;
    if (!bytes) return INVALID_VALUE;
    int counts = kind == DEVICE_MEMORY || state[INTEGRATED];
    *memory = NULL;
    pthread_mutex_lock(&lock);
    if (!counts || (bytes <= (size_t)state[MEMORY_LIMIT] && used() + (int64_t)bytes <= state[MEMORY_LIMIT]))
        *memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (*memory) {
        memset(*memory, FRESH, bytes);
        keep(kind, *memory, bytes, flags);
        if (used() > state[PEAK_BYTES]) state[PEAK_BYTES] = used();
    }
    pthread_mutex_unlock(&lock);
    if (!*memory) count(MEMORY_REFUSED, 1);
    return *memory ? SUCCESS : OUT_OF_MEMORY;
}

static int give_back(enum kind kind, void *memory)
{
    int code = unsafe_in_capture();
    if (code) return code;
    if (!forget(kind, memory, NULL)) return INVALID_VALUE;
    bury(memory);
    return SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    ENTER_IN_CONTEXT();
    *total = (size_t)state[MEMORY_LIMIT];
    *available = used() < state[MEMORY_LIMIT] ? (size_t)(state[MEMORY_LIMIT] - used()) : 0;
    return SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *device, size_t bytes)
{
    ENTER_IN_CONTEXT();
    void *memory;
    int code = take(DEVICE_MEMORY, bytes, 0, &memory);
    if (!code) *device = (CUdeviceptr)(uintptr_t)memory;
    return code;
}

CUresult cuMemAllocManaged(CUdeviceptr *device, size_t bytes, unsigned flags)
{
    ENTER_IN_CONTEXT();
    void *memory;
    int code = take(DEVICE_MEMORY, bytes, flags, &memory);
    if (!code) *device = (CUdeviceptr)(uintptr_t)memory;
    return code;
}

CUresult cuMemFree_v2(CUdeviceptr device)
{
    ENTER_IN_CONTEXT();
    return give_back(DEVICE_MEMORY, (void *)(uintptr_t)device);
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    ENTER_IN_CONTEXT();
    return take(HOST_MEMORY, bytes, flags, memory);
}

CUresult cuMemAllocHost_v2(void **memory, size_t bytes)
{
    ENTER_IN_CONTEXT();
    return take(HOST_MEMORY, bytes, 0, memory);
}

CUresult cuMemFreeHost(void *memory)
{
    ENTER_IN_CONTEXT();
    return give_back(HOST_MEMORY, memory);
}

/* A driver with unified addressing maps all of it; one without (and this one) only what was asked for as mapped. */
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *memory, unsigned flags)
{
    ENTER_IN_CONTEXT();
    struct object found;
    if (flags || !holds(HOST_MEMORY, memory, 1, &found) || !(found.flags & HOST_MAPPED)) return INVALID_VALUE;
    *device = (CUdeviceptr)(uintptr_t)memory;
    return SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *memory)
{
    ENTER_IN_CONTEXT();
    struct object found;
    if (!holds(HOST_MEMORY, memory, 1, &found)) return INVALID_VALUE;
    *flags = found.flags;
    return SUCCESS;
}

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    ENTER_IN_CONTEXT();
    if (!memory || !bytes || holds(REGISTERED_MEMORY, memory, 1, NULL)) return INVALID_VALUE;
    if (state[COMPUTE_MAJOR] * 10 + state[COMPUTE_MINOR] < 72 && state[INTEGRATED]) return NOT_SUPPORTED;
    keep(REGISTERED_MEMORY, memory, bytes, flags);
    return SUCCESS;
}

CUresult cuMemHostUnregister(void *memory)
{
    ENTER_IN_CONTEXT();
    return forget(REGISTERED_MEMORY, memory, NULL) ? SUCCESS : INVALID_VALUE;
}

int page_locked(const void *at, size_t bytes)
{
    return holds(HOST_MEMORY, at, bytes, NULL) || holds(REGISTERED_MEMORY, at, bytes, NULL);
}

/* Whether the device may touch those bytes, for who stands in for its kernels. */
int test_libcuda_reaches(const void *at, size_t bytes)
{
    struct object found;
    if (holds(DEVICE_MEMORY, at, bytes, NULL)) return 1;
    return holds(HOST_MEMORY, at, bytes, &found) && (found.flags & HOST_MAPPED);
}

/* -- copies -------------------------------------------------------------------------------------------------------- */

static int on_device(CUdeviceptr device, size_t bytes)
{
    return test_libcuda_reaches((void *)(uintptr_t)device, bytes);
}

static struct op *copy(void *to, const void *from, size_t bytes)
{
    struct op *op = new_op(COPY);
    op->to = to;
    op->from = from;
    op->bytes = bytes;
    return op;
}

static void count_copy(enum word copies, enum word sum, size_t bytes)
{
    count(copies, 1);
    count(sum, (int64_t)bytes);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr device, const void *host, size_t bytes)
{
    ENTER_IN_CONTEXT();
    int code = unsafe_in_capture();
    if (code) return code;
    if (!on_device(device, bytes)) return INVALID_VALUE;
    count_copy(COPIES_TO_DEVICE, BYTES_TO_DEVICE, bytes);
    return order(NULL, copy((void *)(uintptr_t)device, host, bytes));
}

CUresult cuMemcpyDtoH_v2(void *host, CUdeviceptr device, size_t bytes)
{
    ENTER_IN_CONTEXT();
    int code = unsafe_in_capture();
    if (code) return code;
    if (!on_device(device, bytes)) return INVALID_VALUE;
    count_copy(COPIES_TO_HOST, BYTES_TO_HOST, bytes);
    return order(NULL, copy(host, (void *)(uintptr_t)device, bytes));
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    ENTER_IN_CONTEXT();
    if (!on_device(to, bytes) || !on_device(from, bytes)) return INVALID_VALUE;
    return order(NULL, copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes));
}

/* Of pageable memory the driver takes a copy before it returns. */
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr device, const void *host, size_t bytes, CUstream stream)
{
    ENTER_IN_CONTEXT();
    if (!on_device(device, bytes)) return INVALID_VALUE;
    struct op *op = copy((void *)(uintptr_t)device, host, bytes);
    if (!page_locked(host, bytes)) {
        count(PAGEABLE_ASYNC, 1);
        op->own = malloc(bytes ? bytes : 1);
        op->from = memcpy(op->own, host, bytes);
    }
    count_copy(COPIES_TO_DEVICE, BYTES_TO_DEVICE, bytes);
    return order(stream, op);
}

/* To pageable memory it returns when all is there. */
CUresult cuMemcpyDtoHAsync_v2(void *host, CUdeviceptr device, size_t bytes, CUstream stream)
{
    ENTER_IN_CONTEXT();
    if (!on_device(device, bytes)) return INVALID_VALUE;
    count_copy(COPIES_TO_HOST, BYTES_TO_HOST, bytes);
    int code = order(stream, copy(host, (void *)(uintptr_t)device, bytes));
    if (code || page_locked(host, bytes)) return code;
    count(PAGEABLE_ASYNC, 1);
    return drain(stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER_IN_CONTEXT();
    if (!on_device(to, bytes) || !on_device(from, bytes)) return INVALID_VALUE;
    return order(stream, copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes));
}

static int fill(CUdeviceptr device, unsigned value, unsigned width, size_t number, CUstream stream)
{
    if (!on_device(device, number * width)) return INVALID_VALUE;
    struct op *op = new_op(FILL);
    op->to = (void *)(uintptr_t)device;
    op->bytes = number;
    op->value = value;
    op->width = width;
    return order(stream, op);
}

CUresult cuMemsetD8_v2(CUdeviceptr device, unsigned char value, size_t number)
{
    ENTER_IN_CONTEXT();
    return fill(device, value, 1, number, NULL);
}

CUresult cuMemsetD32_v2(CUdeviceptr device, unsigned value, size_t number)
{
    ENTER_IN_CONTEXT();
    return fill(device, value, 4, number, NULL);
}

CUresult cuMemsetD8Async(CUdeviceptr device, unsigned char value, size_t number, CUstream stream)
{
    ENTER_IN_CONTEXT();
    return fill(device, value, 1, number, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr device, unsigned value, size_t number, CUstream stream)
{
    ENTER_IN_CONTEXT();
    return fill(device, value, 4, number, stream);
}
