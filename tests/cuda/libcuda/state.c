/* What the tests tell the library and what it tells them: a file of 64-bit words, mapped by both. */
#include "libcuda.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ORDERS_AT 512
#define ORDERS 16
#define FILE_BYTES 4096
#define MAGIC_VALUE 0x4355444154455354 /* "CUDATEST" */

/* "answer CODE to the call NAME after SKIP calls of it"; CODE 0: no order. REPEAT 0: once. */
struct call_order {
    char name[40];
    int64_t code;
    int64_t skip;
    int64_t repeat;
};

static volatile int64_t own[FILE_BYTES / 8];
volatile int64_t *state = own;

static void set_default(enum word what, int64_t value)
{
    if (state[what] == 0) state[what] = value;
}

/* The file comes with what the tests want; counts begin anew with each process. */
__attribute__((constructor)) static void open_state(void)
{
    const char *path = getenv("TEST_LIBCUDA_STATE");
    int descriptor = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (descriptor >= 0) {
        void *mapped = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        close(descriptor);
        if (mapped != MAP_FAILED) state = mapped;
    }
    for (int word = CONTEXTS; word < WORDS; word++) state[word] = 0;
    state[STICKY] = 0;
    if (state[MAGIC] == MAGIC_VALUE) return; /* the tests have said everything, zeros too */
    set_default(MEMORY_LIMIT, (int64_t)8 << 30);
    set_default(COMPUTE_MAJOR, 8);
    set_default(COMPUTE_MINOR, 7);
    set_default(DRIVER_VERSION, 12060);
    set_default(DEVICE_COUNT, 1);
    set_default(MULTIPROCESSORS, 8);
}

void count(enum word what, int64_t by)
{
    __atomic_add_fetch(&state[what], by, __ATOMIC_SEQ_CST);
}

int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int carry_out(volatile struct call_order *told)
{
    if (told->skip > 0) {
        told->skip--;
        return SUCCESS;
    }
    int code = (int)told->code;
    if (!told->repeat) told->code = 0;
    return code;
}

static int ordered(const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    volatile struct call_order *orders = (volatile struct call_order *)((volatile char *)state + ORDERS_AT);
    int code = SUCCESS;
    pthread_mutex_lock(&lock);
    for (int at = 0; at < ORDERS && !code; at++)
        if (orders[at].code && !strcmp((const char *)orders[at].name, name)) code = carry_out(&orders[at]);
    pthread_mutex_unlock(&lock);
    if (code >= 700 && code <= 719) state[STICKY] = code; /* such an error spoils the process */
    return code;
}

static int initialised; /* cuInit has succeeded */

int enter(const char *name)
{
    count(CALLS, 1);
    int code = ordered(name);
    if (code) return code;
    if (!__atomic_load_n(&initialised, __ATOMIC_SEQ_CST)) return NOT_INITIALIZED;
    return (int)state[STICKY];
}

int enter_in_context(const char *name)
{
    int code = enter(name);
    if (code) return code;
    return current_context() ? SUCCESS : INVALID_CONTEXT;
}

CUresult cuInit(unsigned flags)
{
    count(CALLS, 1);
    if (flags) return INVALID_VALUE;
    int code = ordered(__func__);
    if (code) return code;
    if (state[INIT_CODE]) return (int)state[INIT_CODE];
    if (state[DEVICE_COUNT] <= 0) return NO_DEVICE;
    __atomic_store_n(&initialised, 1, __ATOMIC_SEQ_CST);
    return SUCCESS;
}

/* The counts by name, for whoever has the library loaded: test_libcuda_count(word number). */
int64_t test_libcuda_count(int what)
{
    return what >= 0 && what < WORDS ? state[what] : -1;
}

/* Work went wrong: every call answers the code from now on. */
void test_libcuda_break(int code)
{
    state[STICKY] = code;
}
