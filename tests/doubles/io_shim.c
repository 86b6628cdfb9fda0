/* Preloaded into processes under test (LD_PRELOAD).
 *
 * Reads of the file whose path ends with $SHIM_FILE fail with EIO while the file $SHIM_GATE exists, in processes whose
 * name begins with $SHIM_NAME (every process without it), but for the first $SHIM_SKIP of them; with $SHIM_ONCE the first
 * failure removes the gate.
 * Every connect() and sendto() to anything but a local socket is written to $SHIM_LOG.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int skipped;

static int is_meant(int fd)
{
    const char *file = getenv("SHIM_FILE"), *name = getenv("SHIM_NAME");
    char link[64], path[4096], own[17] = "";
    ssize_t size;
    size_t ending;
    if (file == NULL)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof path - 1);
    if (size < 0)
        return 0;
    path[size] = '\0';
    ending = strlen(file);
    if ((size_t)size < ending || strcmp(path + size - ending, file) != 0)
        return 0;
    prctl(PR_GET_NAME, own);
    return name == NULL || strncmp(own, name, strlen(name)) == 0;
}

static int fails(int fd)
{
    const char *gate = getenv("SHIM_GATE"), *skip = getenv("SHIM_SKIP");
    if (gate == NULL || access(gate, F_OK) != 0 || !is_meant(fd))
        return 0;
    if (skip != NULL && __sync_fetch_and_add(&skipped, 1) < atoi(skip))
        return 0;
    if (getenv("SHIM_ONCE") != NULL && unlink(gate) != 0)
        return 0;
    errno = EIO;
    return 1;
}

static void note(const char *what, const struct sockaddr *to)
{
    const char *log = getenv("SHIM_LOG");
    char line[64];
    int fd, size;
    if (log == NULL || to == NULL || to->sa_family == AF_UNIX || to->sa_family == AF_UNSPEC || to->sa_family == AF_NETLINK)
        return;
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    size = snprintf(line, sizeof line, "%s family %d\n", what, to->sa_family);
    if (write(fd, line, size) != size)
        abort();
    close(fd);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t read(int fd, void *buffer, size_t size)
{
    return fails(fd) ? -1 : REAL(read)(fd, buffer, size);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t at)
{
    return fails(fd) ? -1 : REAL(pread)(fd, buffer, size, at);
}

ssize_t pread64(int fd, void *buffer, size_t size, off64_t at)
{
    return fails(fd) ? -1 : REAL(pread64)(fd, buffer, size, at);
}

int connect(int fd, const struct sockaddr *to, socklen_t size)
{
    note("connect", to);
    return REAL(connect)(fd, to, size);
}

ssize_t sendto(int fd, const void *data, size_t count, int flags, const struct sockaddr *to, socklen_t size)
{
    note("sendto", to);
    return REAL(sendto)(fd, data, count, flags, to, size);
}
