// Cancellation of threads, and handlers of pthread_cleanup_push. Prints the same with green threads and with OS threads.
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int pipe_ends[2], pair[2], listener;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static pthread_t sleeper;
static atomic_int handled, begun, went_on;

static void counts(void *argument) {
    // A handler may wait: it is not cancelled any more.
    usleep(100);
    handled += (int)(long)argument;
}

static void unlocks(void *argument) {
    handled += pthread_mutex_trylock(&mutex) == EBUSY;
    pthread_mutex_unlock(argument);
}

#define WAITS(name, call)                                                                                              \
    static void *name(void *argument) {                                                                                \
        (void)argument;                                                                                                \
        char buffer[4];                                                                                                \
        (void)buffer;                                                                                                  \
        pthread_cleanup_push(counts, (void *)1);                                                                       \
        begun++;                                                                                                       \
        for (;;) { call; }                                                                                             \
        pthread_cleanup_pop(0);                                                                                        \
        return NULL;                                                                                                   \
    }

static struct timespec minute(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_sec += 60;
    return time;
}

WAITS(reads, (void)!read(pipe_ends[0], buffer, 4))
WAITS(receives, recv(pair[0], buffer, 4, 0))
WAITS(accepts, accept(listener, NULL, NULL))
WAITS(sleeps, sleep(60))
WAITS(usleeps, usleep(60000000))
WAITS(nanosleeps, nanosleep(&(struct timespec){60, 0}, NULL))
WAITS(clock_sleeps, clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){60, 0}, NULL))
WAITS(polls, poll(&(struct pollfd){pipe_ends[0], POLLIN, 0}, 1, 60000))
WAITS(polls_nothing, poll(NULL, 0, 60000))
WAITS(posts, sem_wait(&semaphore))
WAITS(posts_timed, struct timespec time = minute(CLOCK_REALTIME); sem_timedwait(&semaphore, &time))
WAITS(joins, pthread_join(sleeper, NULL))
WAITS(tests, pthread_testcancel())
WAITS(selects, fd_set set; FD_ZERO(&set); FD_SET(pipe_ends[0], &set); select(pipe_ends[0] + 1, &set, NULL, NULL, NULL))

static void *awaits(void *argument) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlocks, &mutex);
    begun++;
    struct timespec time = minute(CLOCK_REALTIME);
    for (;;) {
        if (argument) pthread_cond_timedwait(&condition, &mutex, &time);
        else pthread_cond_wait(&condition, &mutex);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void *awaits_timed(void *argument) {
    (void)argument;
    return awaits(&mutex);
}

static pthread_t start(void *(*run)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, argument)) abort();
    return thread;
}

static const char *join(pthread_t thread) {
    void *result;
    if (pthread_join(thread, &result)) return "not joined";
    return result == PTHREAD_CANCELED ? "cancelled" : "returned";
}

#define EACH 4
// Cancels four threads in the same wait: two that wait already, perhaps, and two that have just begun.
static void each(const char *name, void *(*run)(void *)) {
    handled = begun = 0;
    pthread_t threads[EACH];
    int cancelled = 0;
    for (int i = 0; i < EACH; i++) threads[i] = start(run, NULL);
    // Each of them has begun, so that its handler runs.
    while (begun < EACH) usleep(100);
    for (int i = 0; i < EACH; i++) {
        if (i == 0) usleep(2000);
        if (pthread_cancel(threads[i])) abort();
    }
    for (int i = 0; i < EACH; i++) cancelled += !strcmp(join(threads[i]), "cancelled");
    printf("%s: %d cancelled, %d handled\n", name, cancelled, handled);
}

static char order[16];

static void notes(void *argument) {
    strncat(order, argument, 1);
}

static void __attribute__((noinline)) inner(int exits) {
    pthread_cleanup_push(notes, "a");
    pthread_cleanup_push(notes, "b");
    // Is taken out again, and run.
    pthread_cleanup_push(notes, "x");
    pthread_cleanup_pop(1);
    if (exits) pthread_exit(order);
    for (;;) sleep(60);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
}

static void *nests(void *argument) {
    pthread_cleanup_push(notes, "c");
    begun = 1;
    inner(argument != NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *disables(void *argument) {
    (void)argument;
    int old = -1, again = -1;
    char byte;
    if (pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) || old != PTHREAD_CANCEL_ENABLE) abort();
    if (pthread_setcancelstate(9, NULL) != EINVAL || pthread_setcanceltype(9, NULL) != EINVAL) abort();
    begun = 1;
    // Waits until all is written, although it was cancelled.
    went_on += read(pipe_ends[0], &byte, 1) == 1;
    usleep(1000);
    pthread_testcancel();
    went_on++;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &again);
    went_on += again == PTHREAD_CANCEL_DISABLE;
    pthread_testcancel();
    return NULL;
}

// A cancellation that is pending takes effect although the call need not wait.
static void *has_data(void *argument) {
    char byte;
    while (!atomic_load((atomic_int *)argument)) sched_yield();
    read(pair[0], &byte, 1);
    return NULL;
}

static void *cancels_itself(void *argument) {
    (void)argument;
    pthread_cancel(pthread_self());
    int type = -1;
    went_on += pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type) == 0 && type == PTHREAD_CANCEL_DEFERRED;
    pthread_testcancel();
    went_on = 100;
    return NULL;
}

static void *ends(void *argument) {
    return argument;
}

static void *asks(void *argument) {
    (void)argument;
    return (void *)(long)pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "asynchronous")) {
        void *result;
        pthread_join(start(asks, NULL), &result);
        printf("%d\n", (int)(long)result);
        return 0;
    }
    // What was printed before a wait without an end is seen.
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 9)) return 1;
    if (pipe(pipe_ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || sem_init(&semaphore, 0, 0)) return 1;
    sleeper = start(sleeps, NULL);
    each("read", reads);
    each("recv", receives);
    each("accept", accepts);
    each("sleep", sleeps);
    each("usleep", usleeps);
    each("nanosleep", nanosleeps);
    each("clock_nanosleep", clock_sleeps);
    each("poll", polls);
    each("poll of nothing", polls_nothing);
    each("select", selects);
    each("sem_wait", posts);
    each("sem_timedwait", posts_timed);
    each("pthread_testcancel", tests);
    each("pthread_cond_wait", awaits);
    each("pthread_cond_timedwait", awaits_timed);
    handled = begun = 0;
    pthread_t joiner = start(joins, NULL);
    while (!begun) usleep(100);
    usleep(1000);
    pthread_cancel(joiner);
    const char *how = join(joiner);
    printf("pthread_join: %s, %d handled\n", how, handled);
    pthread_cancel(sleeper);
    printf("its thread can be joined: %s\n", join(sleeper));

    int left = -1;
    sem_getvalue(&semaphore, &left);
    sem_post(&semaphore);
    printf("semaphore: %d, %d\n", left, sem_trywait(&semaphore));
    printf("mutex: %d\n", pthread_mutex_trylock(&mutex));
    pthread_mutex_unlock(&mutex);

    begun = 0;
    pthread_t nested = start(nests, NULL);
    while (!begun) usleep(100);
    pthread_cancel(nested);
    printf("nested: %s, ", join(nested));
    printf("%s\n", order);
    order[0] = 0;
    printf("exit: %s, ", join(start(nests, order)));
    printf("%s\n", order);

    begun = 0;
    pthread_t disabled = start(disables, NULL);
    while (!begun) usleep(100);
    pthread_cancel(disabled);
    usleep(1000);
    if (write(pipe_ends[1], "1", 1) != 1) return 1;
    printf("disabled: %s, ", join(disabled));
    printf("%d\n", went_on);

    atomic_int go = 0;
    char byte;
    if (write(pair[1], "1", 1) != 1) return 1;
    pthread_t has = start(has_data, &go);
    pthread_cancel(has);
    go = 1;
    printf("data: %s, ", join(has));
    printf("%zd left\n", recv(pair[0], &byte, 1, MSG_DONTWAIT));

    went_on = 0;
    printf("itself: %s, ", join(start(cancels_itself, NULL)));
    printf("%d\n", went_on);

    int cancelled = 0, returned = 0;
    for (int i = 0; i < 1000; i++) {
        pthread_t thread = start(i % 2 ? ends : tests, NULL);
        pthread_cancel(thread);
        how = join(thread);
        cancelled += i % 2 == 0 && !strcmp(how, "cancelled");
        returned += i % 2;
    }
    printf("early: %d %d\n", cancelled, returned);

    // The cancellation comes at any moment of the begin of a wait.
    void *(*waits[])(void *) = {posts, awaits, reads, nanosleeps};
    cancelled = 0;
    for (int i = 0; i < 1200; i++) {
        begun = 0;
        pthread_t thread = start(waits[i % 4], NULL);
        while (!begun) sched_yield();
        for (volatile int spin = i * 37 % 3000; spin > 0; spin--) {}
        pthread_cancel(thread);
        cancelled += !strcmp(join(thread), "cancelled");
    }
    sem_getvalue(&semaphore, &left);
    printf("at any moment: %d, semaphore: %d\n", cancelled, left);
    return 0;
}
