/* Runs: 3 calls in the parent, then a child with 5 calls from two threads, a grandchild without any. Then 2 more. */
#include <pthread.h>
#include <sys/wait.h>

#include "versioned.h"

static void *call(void *count) {
    for (long i = 0; i < *(long *)count; i++) which();
    return NULL;
}

int main(void) {
    pthread_t thread;
    long two = 2, three = 3;
    int status;
    call(&three);
    if (fork() == 0) {
        pthread_create(&thread, NULL, call, &two);
        call(&three);
        pthread_join(thread, NULL);
        if (fork() == 0) exit(0);
        wait(&status);
        exit(status);
    }
    wait(&status);
    call(&two);
    return status;
}
