// Checks the return value and errno of each call that the runtime hooks. The same checks run on green threads and on OS threads.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000L
// Not a number that was closed: another thread may use that again.
#define NOT_OPEN (1 << 18)

// Of all threads: green threads share an OS thread's variables.
static int failures;

static void fail(int line, const char *call, long got, int error) {
    __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    fprintf(stderr, "calls.c:%d: %s returned %ld, errno %d (%s)\n", line, call, got, error, strerror(error));
}

// The call returns `want`; if that is -1, errno is `error`. gcc may keep the address of errno across the call.
#define EXPECT(call, want, error)                                                                                      \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        long got = (long)(call);                                                                                       \
        int e = errno;                                                                                                 \
        if (got != (long)(want) || (got == -1 && e != (error))) fail(__LINE__, #call, got, e);                         \
    } while (0)
#define OK(call, want) EXPECT(call, want, 0)
#define TRUE(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) fail(__LINE__, #condition, 0, 0);                                                            \
    } while (0)

// What another OS thread does to a descriptor after a while.
struct later {
    pthread_t thread;
    int fd, what;
    size_t bytes;
};
enum { SEND, DRAIN, CLOSE, SHUT, SEND_FD };

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / MS;
}

static void *act(void *argument) {
    struct later *later = argument;
    usleep(20000);
    char *bytes = calloc(1, later->bytes + 1);
    memset(bytes, 'x', later->bytes);
    switch (later->what) {
    case SEND:
        if (write(later->fd, bytes, later->bytes) < 0) abort();
        break;
    case DRAIN:
        for (size_t done = 0; done < later->bytes;) {
            ssize_t n = read(later->fd, bytes, later->bytes);
            if (n <= 0) abort();
            done += n;
        }
        break;
    case CLOSE:
        close(later->fd);
        break;
    case SHUT:
        shutdown(later->fd, SHUT_RDWR);
        break;
    }
    free(bytes);
    return 0;
}

static struct later *later(int what, int fd, size_t bytes) {
    struct later *later = calloc(1, sizeof *later);
    later->fd = fd, later->what = what, later->bytes = bytes;
    if (pthread_create(&later->thread, 0, act, later)) abort();
    return later;
}

static void done(struct later *later) {
    pthread_join(later->thread, 0);
    free(later);
}

static void pair(int type, int s[2]) {
    if (socketpair(AF_UNIX, type, 0, s)) abort();
}

static int listener(struct sockaddr_in *address) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof *address;
    if (bind(fd, (struct sockaddr *)address, len) || listen(fd, 16)) abort();
    getsockname(fd, (struct sockaddr *)address, &len);
    return fd;
}

static void tcp_pair(int s[2]) {
    struct sockaddr_in address;
    int fd = listener(&address);
    s[0] = socket(AF_INET, SOCK_STREAM, 0);
    OK(connect(s[0], (struct sockaddr *)&address, sizeof address), 0);
    s[1] = accept(fd, 0, 0);
    TRUE(s[1] >= 0);
    close(fd);
}

static void time_limit(int fd, int option, long ms) {
    struct timeval t = {ms / 1000, ms % 1000 * 1000};
    OK(setsockopt(fd, SOL_SOCKET, option, &t, sizeof t), 0);
}

static void reads(int s[2]) {
    char b[64];
    struct iovec v[2] = {{b, 2}, {b + 2, 62}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    struct later *l;
#define EACH(call)                                                                                                     \
    l = later(SEND, s[1], 5);                                                                                          \
    OK(call, 5);                                                                                                       \
    done(l);
    EACH(read(s[0], b, 64));
    EACH(readv(s[0], v, 2));
    EACH(recv(s[0], b, 64, 0));
    EACH(recvfrom(s[0], b, 64, 0, 0, 0));
    EACH(recvmsg(s[0], &m, 0));
    OK(read(s[0], b, 0), 0);
    EXPECT(recv(s[0], b, 64, MSG_DONTWAIT), -1, EAGAIN);
    l = later(SEND, s[1], 5);
    OK(recv(s[0], b, 64, MSG_PEEK), 5);
    OK(recv(s[0], b, 64, MSG_PEEK), 5);
    OK(recv(s[0], b, 3, 0), 3);
    OK(recv(s[0], b, 64, 0), 2);
    done(l);
    // All is waited for, or until the end.
    OK(write(s[1], "ab", 2), 2);
    l = later(SEND, s[1], 6);
    OK(recv(s[0], b, 8, MSG_WAITALL), 8);
    done(l);
    OK(write(s[1], "ab", 2), 2);
    l = later(SEND, s[1], 6);
    v[1].iov_len = 6;
    OK(recvmsg(s[0], &m, MSG_WAITALL), 8);
    done(l);
    TRUE(!memcmp(b, "abxxxxxx", 8));
    // A Unix socket returns what there is.
    int family = 0;
    socklen_t len = sizeof family;
    getsockopt(s[0], SOL_SOCKET, SO_DOMAIN, &family, &len);
    OK(write(s[1], "ab", 2), 2);
    l = later(SEND, s[1], 6);
    OK(recv(s[0], b, 8, MSG_WAITALL | MSG_PEEK), family == AF_INET ? 8 : 2);
    done(l);
    OK(recv(s[0], b, 64, 0), 8);
    time_limit(s[0], SO_RCVTIMEO, 30);
    long start = now_ms();
    EXPECT(recv(s[0], b, 64, 0), -1, EAGAIN);
    EXPECT(read(s[0], b, 64), -1, EAGAIN);
    EXPECT(recvmsg(s[0], &m, 0), -1, EAGAIN);
    TRUE(now_ms() - start >= 85);
    OK(write(s[1], "ab", 2), 2);
    OK(recv(s[0], b, 8, MSG_WAITALL), 2);
    time_limit(s[0], SO_RCVTIMEO, 0);
    fcntl(s[0], F_SETFL, O_NONBLOCK);
    EXPECT(read(s[0], b, 64), -1, EAGAIN);
    EXPECT(readv(s[0], v, 2), -1, EAGAIN);
    EXPECT(recv(s[0], b, 64, 0), -1, EAGAIN);
    EXPECT(recvmsg(s[0], &m, 0), -1, EAGAIN);
    fcntl(s[0], F_SETFL, 0);
    TRUE(fcntl(s[0], F_GETFL) == O_RDWR);
    // The end.
    OK(write(s[1], "ab", 2), 2);
    l = later(CLOSE, s[1], 0);
    OK(recv(s[0], b, 8, MSG_WAITALL), 2);
    OK(recv(s[0], b, 8, 0), 0);
    OK(read(s[0], b, 8), 0);
    OK(recvmsg(s[0], &m, 0), 0);
    done(l);
    close(s[0]);
}

#define BIG 3000000

static void unix_stream(int s[2]) { pair(SOCK_STREAM, s); }

// Sends until there is no room, and adds to `all` what it has sent. (TCP may find room later, if the machine is loaded.)
static long send_until_full(int fd, char *big, long *all) {
    long sent;
    int most = 100;
    while ((sent = send(fd, big, BIG, 0)) > 0 && most-- > 0)
        *all += sent;
    return sent;
}

static void writes(void (*make)(int[2])) {
    int s[2];
    make(s);
    int small = 100000;
    setsockopt(s[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    setsockopt(s[1], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    char *big = calloc(1, BIG);
    struct iovec v[3] = {{big, 1}, {big + 1, BIG / 2}, {big + 1 + BIG / 2, BIG - 1 - BIG / 2}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 3};
    struct later *l;
#define ALL(call)                                                                                                      \
    l = later(DRAIN, s[1], BIG);                                                                                       \
    OK(call, BIG);                                                                                                     \
    done(l);
    ALL(write(s[0], big, BIG));
    ALL(writev(s[0], v, 3));
    ALL(send(s[0], big, BIG, 0));
    ALL(sendto(s[0], big, BIG, 0, 0, 0));
    ALL(sendmsg(s[0], &m, 0));
    long part = send(s[0], big, BIG, MSG_DONTWAIT);
    TRUE(part > 0 && part < BIG);
    EXPECT(send(s[0], big, BIG, MSG_DONTWAIT), -1, EAGAIN);
    time_limit(s[0], SO_SNDTIMEO, 30);
    EXPECT(send_until_full(s[0], big, &part), -1, EAGAIN);
    // TCP may find room later.
    if (make == unix_stream) EXPECT(write(s[0], big, BIG), -1, EAGAIN);
    time_limit(s[0], SO_SNDTIMEO, 500);
    l = later(DRAIN, s[1], part);
    long some = write(s[0], big, BIG);
    TRUE(some > 0 && some < BIG);
    done(l);
    fcntl(s[0], F_SETFL, O_NONBLOCK);
    while (write(s[0], big, BIG) > 0)
        ;
    TRUE(errno == EAGAIN);
    fcntl(s[0], F_SETFL, 0);
    time_limit(s[0], SO_SNDTIMEO, 0);
    l = later(CLOSE, s[1], 0);
    long last = send(s[0], big, BIG, MSG_NOSIGNAL);
    TRUE(last > 0 || errno == EPIPE || errno == ECONNRESET);
    done(l);
    EXPECT((send(s[0], big, BIG, MSG_NOSIGNAL), send(s[0], big, BIG, MSG_NOSIGNAL)), -1, EPIPE);
    close(s[0]);
    free(big);
}

static void pipes(void) {
    int p[2];
    char b[64];
    if (pipe(p)) abort();
    struct iovec v[2] = {{b, 2}, {b + 2, 62}};
    struct later *l = later(SEND, p[1], 5);
    OK(read(p[0], b, 64), 5);
    done(l);
    l = later(SEND, p[1], 5);
    OK(readv(p[0], v, 2), 5);
    done(l);
    char *big = calloc(1, BIG);
    l = later(DRAIN, p[0], BIG);
    OK(write(p[1], big, BIG), BIG);
    done(l);
    struct iovec w[2] = {{big, 7}, {big + 7, BIG - 7}};
    l = later(DRAIN, p[0], BIG);
    OK(writev(p[1], w, 2), BIG);
    done(l);
    EXPECT(recv(p[0], b, 64, 0), -1, ENOTSOCK);
    EXPECT(send(p[1], b, 64, 0), -1, ENOTSOCK);
    EXPECT(read(p[1], b, 64), -1, EBADF);
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    EXPECT(read(p[0], b, 64), -1, EAGAIN);
    fcntl(p[0], F_SETFL, 0);
    l = later(CLOSE, p[1], 0);
    OK(read(p[0], b, 64), 0);
    done(l);
    close(p[0]);
    EXPECT(read(NOT_OPEN, b, 64), -1, EBADF);
    EXPECT(write(NOT_OPEN, b, 64), -1, EBADF);
    free(big);
}

static void others(void) {
    char b[4096];
    uint64_t n = 0;
    int e = eventfd(0, 0);
    struct later *l;
    struct itimerspec t = {.it_value = {0, 20 * MS}};
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    OK(timerfd_settime(timer, 0, &t, 0), 0);
    OK(read(timer, &n, 8), 8);
    TRUE(n == 1);
    l = later(SEND, e, 8);
    OK(read(e, &n, 8), 8);
    done(l);
    n = 5;
    OK(write(e, &n, 8), 8);
    OK(read(e, &n, 8), 8);
    close(e);
    close(timer);
    int f = open("/proc/self/status", O_RDONLY);
    TRUE(read(f, b, sizeof b) > 100);
    close(f);
    char path[] = "/tmp/calls-XXXXXX";
    f = mkstemp(path);
    unlink(path);
    OK(write(f, "hello", 5), 5);
    OK(lseek(f, 0, SEEK_SET), 0);
    OK(read(f, b, 64), 5);
    OK(read(f, b, 64), 0);
    close(f);
    EXPECT(read(-1, b, 1), -1, EBADF);
    EXPECT(accept(NOT_OPEN, 0, 0), -1, EBADF);
}

static void datagrams(void) {
    int s[2];
    char b[64];
    pair(SOCK_DGRAM, s);
    struct later *l = later(SEND, s[1], 5);
    OK(recv(s[0], b, 64, MSG_WAITALL), 5);
    done(l);
    OK(send(s[1], b, 0, 0), 0);
    OK(recv(s[0], b, 64, 0), 0);
    int u = socket(AF_INET, SOCK_DGRAM, 0), w = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from = {0};
    socklen_t len = sizeof a;
    OK(bind(u, (struct sockaddr *)&a, len), 0);
    getsockname(u, (struct sockaddr *)&a, &len);
    OK(connect(w, (struct sockaddr *)&a, len), 0);
    l = later(SEND, w, 9);
    socklen_t from_len = sizeof from;
    OK(recvfrom(u, b, 64, 0, (struct sockaddr *)&from, &from_len), 9);
    TRUE(from_len == sizeof from && from.sin_family == AF_INET);
    done(l);
    EXPECT(accept(u, 0, 0), -1, EOPNOTSUPP);
    close(u), close(w), close(s[0]), close(s[1]);
}

static void *connect_later(void *address) {
    usleep(20000);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(s, address, sizeof(struct sockaddr_in))) abort();
    return (void *)(long)s;
}

static void connections(void) {
    struct sockaddr_in a, from;
    socklen_t len = sizeof from;
    int fd = listener(&a);
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        pthread_create(&thread, 0, connect_later, &a);
        int s = i ? accept4(fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC) : accept(fd, 0, 0);
        TRUE(s >= 0);
        TRUE(fcntl(s, F_GETFD) == (i ? FD_CLOEXEC : 0));
        void *other;
        pthread_join(thread, &other);
        close(s);
        close((long)other);
    }
    TRUE(from.sin_family == AF_INET);
    time_limit(fd, SO_RCVTIMEO, 30);
    EXPECT(accept(fd, 0, 0), -1, EAGAIN);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    EXPECT(accept(fd, 0, 0), -1, EAGAIN);
    close(fd);
    // No listener any more.
    int s = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(connect(s, (struct sockaddr *)&a, sizeof a), -1, ECONNREFUSED);
    TRUE(fcntl(s, F_GETFL) == O_RDWR);
    EXPECT(accept(s, 0, 0), -1, EINVAL);
    close(s);
    EXPECT(connect(NOT_OPEN, (struct sockaddr *)&a, sizeof a), -1, EBADF);
    EXPECT(connect(NOT_OPEN, 0, 0), -1, EBADF);
    // A listener whose queue is full lets a connection wait; SO_SNDTIMEO ends that.
    fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_port = 0;
    len = sizeof a;
    if (bind(fd, (struct sockaddr *)&a, len) || listen(fd, 0)) abort();
    getsockname(fd, (struct sockaddr *)&a, &len);
    int first = socket(AF_INET, SOCK_STREAM, 0);
    OK(connect(first, (struct sockaddr *)&a, len), 0);
    s = socket(AF_INET, SOCK_STREAM, 0);
    time_limit(s, SO_SNDTIMEO, 50);
    EXPECT(connect(s, (struct sockaddr *)&a, len), -1, EINPROGRESS);
    EXPECT(connect(first, (struct sockaddr *)&a, len), -1, EISCONN);
    close(s), close(fd), close(first);
}

static void polls(void) {
    int s[2], p[2];
    char b[64];
    pair(SOCK_STREAM, s);
    if (pipe(p)) abort();
    struct pollfd f[4] = {{s[0], POLLIN, 0}, {-1, POLLIN, 7}, {p[0], POLLIN | POLLPRI, 0}, {s[0], POLLRDHUP, 0}};
    OK(poll(f, 4, 0), 0);
    long start = now_ms();
    OK(poll(f, 4, 30), 0);
    TRUE(now_ms() - start >= 29);
    TRUE(f[1].revents == 0);
    struct later *l = later(SEND, p[1], 1);
    OK(poll(f, 4, -1), 1);
    TRUE(f[2].revents == POLLIN && f[0].revents == 0);
    done(l);
    OK(read(p[0], b, 1), 1);
    l = later(SHUT, s[1], 0);
    OK(poll(f + 3, 1, 5000), 1);
    TRUE(f[3].revents & POLLRDHUP);
    done(l);
    f[0].events = POLLOUT;
    OK(poll(f, 1, -1), 1);
    struct timespec t = {0, 30 * MS}, bad = {0, -1};
    f[0] = (struct pollfd){p[0], POLLIN, 0};
    OK(ppoll(f, 1, &t, 0), 0);
    TRUE(t.tv_nsec == 30 * MS);
    EXPECT(ppoll(f, 1, &bad, 0), -1, EINVAL);
    sigset_t none;
    sigemptyset(&none);
    OK(ppoll(f, 1, &t, &none), 0);
    f[0].fd = NOT_OPEN;
    OK(poll(f, 1, -1), 1);
    TRUE(f[0].revents == POLLNVAL);
    OK(poll(0, 0, 10), 0);
    // select
    fd_set r, w;
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(p[0], &r);
    struct timeval v = {0, 30000};
    start = now_ms();
    OK(select(p[0] + 1, &r, 0, 0, &v), 0);
    TRUE(now_ms() - start >= 29 && !FD_ISSET(p[0], &r) && v.tv_sec == 0 && v.tv_usec == 0);
    l = later(SEND, p[1], 1);
    FD_SET(p[0], &r);
    v.tv_sec = 5;
    OK(select(p[0] + 1, &r, &w, 0, &v), 1);
    TRUE(FD_ISSET(p[0], &r) && v.tv_sec == 4);
    done(l);
    FD_SET(p[0], &r);
    FD_SET(p[1], &w);
    OK(select(p[1] + 1, &r, &w, 0, 0), 2);
    EXPECT(select(-1, &r, 0, 0, 0), -1, EINVAL);
    // pselect
    OK(read(p[0], b, 1), 1);
    start = now_ms();
    OK(pselect(p[0] + 1, &r, 0, 0, &t, 0), 0);
    TRUE(now_ms() - start >= 29 && !FD_ISSET(p[0], &r) && t.tv_nsec == 30 * MS);
    FD_SET(p[0], &r);
    OK(pselect(p[0] + 1, &r, 0, 0, &t, &none), 0);
    TRUE(!FD_ISSET(p[0], &r) && t.tv_nsec == 30 * MS);
    l = later(SEND, p[1], 1);
    FD_SET(p[0], &r);
    FD_ZERO(&w);
    OK(pselect(p[0] + 1, &r, &w, 0, 0, 0), 1);
    TRUE(FD_ISSET(p[0], &r));
    done(l);
    OK(read(p[0], b, 1), 1);
    l = later(SEND, p[1], 1);
    OK(pselect(p[0] + 1, &r, &w, 0, 0, &none), 1);
    TRUE(FD_ISSET(p[0], &r));
    done(l);
    EXPECT(pselect(p[0] + 1, &r, 0, 0, &bad, 0), -1, EINVAL);
    EXPECT(pselect(-1, &r, 0, 0, 0, 0), -1, EINVAL);
    close(p[0]), close(p[1]);
    close(s[0]), close(s[1]);
}

static void sleeps(void) {
    struct timespec t = {0, 10 * MS}, bad = {0, 1000000000}, until;
    long start = now_ms();
    OK(nanosleep(&t, 0), 0);
    OK(usleep(10000), 0);
    OK(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, 0), 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    OK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, 0), 0);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec--;
    OK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0), 0);
    OK(sleep(0), 0);
    TRUE(now_ms() - start >= 1029);
    EXPECT(nanosleep(&bad, 0), -1, EINVAL);
    OK(clock_nanosleep(CLOCK_MONOTONIC, 0, &bad, 0), EINVAL);
    OK(clock_nanosleep(12345, 0, &t, 0), EINVAL);
}

static void names(void) {
    struct addrinfo *found = 0, hints = {.ai_socktype = SOCK_STREAM};
    OK(getaddrinfo("localhost", "80", &hints, &found), 0);
    TRUE(found && found->ai_addr);
    if (found) freeaddrinfo(found);
    hints.ai_flags = AI_NUMERICHOST;
    OK(getaddrinfo("no number", 0, &hints, &found), EAI_NONAME);
}

static void descriptors(void) {
    int s[2];
    char b[8];
    pair(SOCK_STREAM, s);
    int copy = dup(s[0]);
    struct later *l = later(SEND, s[1], 3);
    OK(read(copy, b, 8), 3);
    done(l);
    close(copy);
    // The number gets another file, of another kind.
    int p[2];
    if (pipe(p)) abort();
    if (dup2(p[0], s[0]) != s[0]) abort();
    l = later(SEND, p[1], 4);
    OK(read(s[0], b, 8), 4);
    done(l);
    pair(SOCK_STREAM, p);
    if (dup2(p[0], s[0]) != s[0]) abort();
    l = later(SEND, p[1], 5);
    OK(read(s[0], b, 8), 5);
    done(l);
    int f = open("/dev/zero", O_RDONLY);
    if (dup2(f, s[0]) != s[0]) abort();
    OK(read(s[0], b, 8), 8);
    f = open("/proc/self/stat", O_RDONLY);
    if (dup2(f, s[0]) != s[0]) abort();
    OK(read(s[0], b, 8), 8);
    close(f), close(s[0]), close(s[1]), close(p[0]), close(p[1]);
}

// Runs all checks and returns the number of failures of all threads so far.
int check_calls(void) {
    int s[2];
    pair(SOCK_STREAM, s);
    reads(s);
    tcp_pair(s);
    reads(s);
    writes(unix_stream);
    writes(tcp_pair);
    pipes();
    others();
    datagrams();
    connections();
    polls();
    sleeps();
    names();
    descriptors();
    return __atomic_load_n(&failures, __ATOMIC_RELAXED);
}

// Receives with a time-out. Returns the errno that this function sees at the address that it has kept from before the call.
int errno_after_timeout(int fd, int ms) {
    char b[8];
    time_limit(fd, SO_RCVTIMEO, ms);
    int *kept = &errno;
    *kept = 0;
    ssize_t got = recv(fd, b, sizeof b, 0);
    return got == -1 ? *kept : -1;
}

// Receives, and returns the negative errno if that fails.
int receive(int fd) {
    char b[8];
    ssize_t got = recv(fd, b, sizeof b, 0);
    return got < 0 ? -errno : (int)got;
}

// A child of vfork closes `fd`, and puts `other` in the place of `second`. Returns its exit status.
int close_in_vfork_child(int fd, int second, int other) {
    pid_t child = vfork();
    if (child == 0) _exit(close(fd) == 0 && dup2(other, second) == second ? 0 : 1);
    int status;
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

// Waits for a byte of `fd`, by `poll` for another, and for some milliseconds. Returns the sum of the bytes.
static int wait_here(int fd) {
    unsigned char first = 0, second = 0;
    struct pollfd look = {.fd = fd, .events = POLLIN};
    if (read(fd, &first, 1) != 1) return 255;
    if (poll(&look, 1, -1) != 1) return 254;
    if (recv(fd, &second, 1, 0) != 1) return 253;
    usleep(3000);
    return first + second;
}

static int wait_in_clone(void *fd) {
    _exit(wait_here(*(int *)fd));
}

// A child waits as `wait_here` does. It is made by: 0 vfork, 1 clone with the memory of its parent, 2 _Fork,
// 3 and 4 clone and clone3 by their numbers. Returns its exit status.
int wait_in_child(int how, int fd) {
    static char stack[1 << 16] __attribute__((aligned(16)));
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    } args = {.exit_signal = SIGCHLD};
    pid_t child = -1;
    switch (how) {
    case 0:
        child = vfork();
        break;
    case 1:
        child = clone(wait_in_clone, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &fd);
        break;
    case 2:
        child = _Fork();
        break;
    case 3:
        child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        break;
    case 4:
        child = syscall(SYS_clone3, &args, sizeof args);
        break;
    }
    if (child == 0) _exit(wait_here(fd));
    int status;
    return child > 0 && waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1;
}
