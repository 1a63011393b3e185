// Opens the libraries that the arguments name, and runs the basics of each, one after the other and side by side.
#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

typedef int (*runs)(void);

static void *run(void *basics) {
    assert(((runs)basics)() == 1);
    return 0;
}

int main(int count, char **paths) {
    runs basics[8];
    pthread_t threads[8];
    assert(count >= 3 && count <= 8);
    for (int i = 1; i < count; i++) {
        void *library = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
        if (!library) { printf("%s\n", dlerror()); return 1; }
        basics[i] = (runs)dlsym(library, "runs_basics");
        assert(basics[i]);
        run((void *)basics[i]);
    }
    for (int i = 1; i < count; i++) assert(!pthread_create(&threads[i], 0, run, (void *)basics[i]));
    for (int i = 1; i < count; i++) assert(!pthread_join(threads[i], 0));
    printf("ok\n");
    return 0;
}
