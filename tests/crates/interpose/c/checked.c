// Calls that the C library checks: compiled with _FORTIFY_SOURCE, and with sizes that the compiler does not know, so that `__read_chk` and
// the like are called. Also calls that libraries use seldom.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

// Waits for `size` bytes, or for `size` descriptors, by the call number `how`. Returns what the call returns.
int checked_call(int how, int fd, int size) {
    char bytes[64];
    struct pollfd fds[4] = {{.fd = fd, .events = POLLIN}, {.fd = -1}, {.fd = -1}, {.fd = -1}};
    struct iovec part = {bytes, size < 64 ? (size_t)size : 64};
    struct timespec minute = {60, 0};
    switch (how) {
    case 0: return (int)read(fd, bytes, (size_t)size);
    case 1: return (int)recv(fd, bytes, (size_t)size, 0);
    case 2: return (int)recvfrom(fd, bytes, (size_t)size, 0, NULL, NULL);
    case 3: return poll(fds, (nfds_t)size, 60000);
    case 4: return ppoll(fds, (nfds_t)size, &minute, NULL);
    case 5: return (int)preadv2(fd, &part, 1, -1, 0);
    default: return (int)preadv64v2(fd, &part, 1, -1, 0);
    }
}

// Writes `bytes` by pwritev2 at the present position. Returns what the call returns.
long write_at_position(int fd, const void *bytes, unsigned long count) {
    struct iovec part = {(void *)bytes, count};
    return pwritev2(fd, &part, 1, -1, 0);
}

// Sleeps for some milliseconds, and by a time that is none. Returns 0 if the results are right.
int sleep_by_thrd(int ms) {
    struct timespec time = {0, ms * 1000000L}, none = {0, -1};
    if (thrd_sleep(&time, NULL) != 0) return 1;
    return thrd_sleep(&none, NULL) < -1 ? 0 : 2;
}

// Closes all descriptors from `first` to `last`; from `first` on if `last` is -1.
int close_all(int first, int last) {
    if (last == -1) {
        closefrom(first);
        return 0;
    }
    return close_range((unsigned)first, (unsigned)last, 0);
}
