/* The device, the primary context, and each thread's stack of current contexts. */
#include "libcuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 64
#define SCHED_BLOCKING_SYNC 4u
#define SCHED_MASK 7u

struct context {
    unsigned flags;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context primary;
static int primary_users;
static __thread CUcontext stack[DEPTH];
static __thread int depth;

CUcontext current_context(void)
{
    CUcontext context = depth ? stack[depth - 1] : NULL;
    return context && alive(CONTEXT, context) ? context : NULL;
}

int context_blocks(void)
{
    CUcontext context = current_context();
    return context && (context->flags & SCHED_MASK) == SCHED_BLOCKING_SYNC;
}

/* -- the device ---------------------------------------------------------------------------------------------------- */

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture from another thread"},
};

static int error_index(CUresult code)
{
    for (int at = 0; at < (int)(sizeof errors / sizeof *errors); at++)
        if (errors[at].code == code) return at;
    return -1;
}

CUresult cuGetErrorName(CUresult code, const char **text)
{
    int at = error_index(code);
    *text = at < 0 ? NULL : errors[at].name;
    return at < 0 ? INVALID_VALUE : SUCCESS;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
    int at = error_index(code);
    *text = at < 0 ? NULL : errors[at].text;
    return at < 0 ? INVALID_VALUE : SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = (int)state[DRIVER_VERSION];
    return SUCCESS;
}

CUresult cuDeviceGetCount(int *number)
{
    ENTER();
    *number = (int)state[DEVICE_COUNT];
    return SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER();
    if (ordinal < 0 || ordinal >= state[DEVICE_COUNT]) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice device)
{
    ENTER();
    (void)device;
    snprintf(name, room, "Test device");
    return SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *name, int room, CUdevice device)
{
    ENTER();
    snprintf(name, room, "0000:%02x:00.0", device + 1);
    return SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    ENTER();
    (void)device;
    *bytes = (size_t)state[MEMORY_LIMIT];
    return SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    ENTER();
    (void)device;
    *major = (int)state[COMPUTE_MAJOR];
    *minor = (int)state[COMPUTE_MINOR];
    return SUCCESS;
}

static int attribute(int what)
{
    switch (what) {
    case 1: return 1024;                         /* MAX_THREADS_PER_BLOCK */
    case 10: return 32;                          /* WARP_SIZE */
    case 13: return 918000;                      /* CLOCK_RATE, kHz */
    case 16: return (int)state[MULTIPROCESSORS]; /* MULTIPROCESSOR_COUNT */
    case 18: return (int)state[INTEGRATED];      /* INTEGRATED */
    case 19: return 1;                           /* CAN_MAP_HOST_MEMORY */
    case 40: return 1;                           /* ASYNC_ENGINE_COUNT */
    case 41: return 1;                           /* UNIFIED_ADDRESSING */
    case 75: return (int)state[COMPUTE_MAJOR];
    case 76: return (int)state[COMPUTE_MINOR];
    case 83: return 1; /* MANAGED_MEMORY */
    default: return 0;
    }
}

CUresult cuDeviceGetAttribute(int *value, int what, CUdevice device)
{
    ENTER();
    if (device < 0 || device >= state[DEVICE_COUNT]) return INVALID_DEVICE;
    *value = attribute(what);
    return SUCCESS;
}

/* -- contexts ------------------------------------------------------------------------------------------------------ */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER();
    if (device) return INVALID_DEVICE; /* one device has memory here */
    pthread_mutex_lock(&lock);
    if (primary_users++ == 0) keep(CONTEXT, &primary, 0, 0);
    pthread_mutex_unlock(&lock);
    *context = &primary;
    return SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER();
    (void)device;
    pthread_mutex_lock(&lock);
    int users = primary_users;
    if (users > 0 && --primary_users == 0) forget(CONTEXT, &primary, NULL);
    pthread_mutex_unlock(&lock);
    return users > 0 ? SUCCESS : INVALID_CONTEXT;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    return cuDevicePrimaryCtxRelease_v2(device);
}

/* Drivers before CUDA 11 refuse this for a context in use; later ones take it. The older answer finds more mistakes. */
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    ENTER();
    (void)device;
    pthread_mutex_lock(&lock);
    int users = primary_users;
    if (!users) primary.flags = flags;
    pthread_mutex_unlock(&lock);
    return users ? PRIMARY_CONTEXT_ACTIVE : SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    ENTER();
    (void)device;
    *flags = primary.flags;
    *active = primary_users > 0;
    return SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER();
    if (!alive(CONTEXT, context) || depth == DEPTH) return INVALID_CONTEXT;
    stack[depth++] = context;
    return SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    ENTER();
    if (!depth) return INVALID_CONTEXT;
    depth--;
    if (context) *context = stack[depth];
    return SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER();
    if (context && !alive(CONTEXT, context)) return INVALID_CONTEXT;
    if (depth) depth--;
    if (context) stack[depth++] = context;
    return SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    ENTER();
    *context = current_context();
    return SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    ENTER();
    if (device < 0 || device >= state[DEVICE_COUNT]) return INVALID_DEVICE;
    if (depth == DEPTH) return OUT_OF_MEMORY;
    CUcontext made = calloc(1, sizeof *made);
    made->flags = flags;
    keep(CONTEXT, made, 0, 0);
    count(CONTEXTS_MADE, 1);
    stack[depth++] = made;
    *context = made;
    return SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    ENTER();
    if (context == &primary || !forget(CONTEXT, context, NULL)) return INVALID_CONTEXT;
    if (depth && stack[depth - 1] == context) depth--;
    free(context);
    return SUCCESS;
}

CUresult cuCtxDetach(CUcontext context)
{
    return cuCtxDestroy_v2(context);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    ENTER_IN_CONTEXT();
    *device = 0;
    return SUCCESS;
}

CUresult cuCtxGetFlags(unsigned *flags)
{
    ENTER_IN_CONTEXT();
    *flags = current_context()->flags;
    return SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version)
{
    ENTER();
    (void)context;
    *version = 3020;
    return SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    ENTER_IN_CONTEXT();
    int code = unsafe_in_capture();
    if (code) return code;
    if (!context_blocks()) count(SPINNING_WAITS, 1);
    wait_for_all(0);
    return (int)state[STICKY];
}
