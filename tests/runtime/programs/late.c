/* A thread that is there before the library is loaded calls into it; then the library is closed and loaded again. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static pthread_barrier_t gate;
static int (*call_which)(void);
static int from_old_thread;

static void *wait_and_call(void *unused) {
    pthread_barrier_wait(&gate);
    from_old_thread = call_which();
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    (void)argc;
    pthread_barrier_init(&gate, NULL, 2);
    pthread_create(&thread, NULL, wait_and_call, NULL);
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
    call_which = (int (*)(void))dlsym(library, "call_which");
    pthread_barrier_wait(&gate);
    pthread_join(thread, NULL);
    printf("old thread %d\n", from_old_thread);
    printf("main %d\n", call_which());
    printf("rseq %s\n", ((int (*)(void))dlsym(library, "has_rseq"))() ? "on" : "off");
    dlclose(library);
    printf("closed\n");
    fflush(stdout);
    library = dlopen(argv[1], RTLD_NOW);
    call_which = (int (*)(void))dlsym(library, "call_which");
    printf("again %d\n", call_which());
    return 0;
}
