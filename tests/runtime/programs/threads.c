/* Four threads fill the table for the first time at the same moment, then dispatch; one thread prints what it saw. */
#include <pthread.h>

#include "versioned.h"

enum { THREADS = 4, CALLS = 20000 };

static pthread_barrier_t start_line_up;
static int seen[THREADS][VERSIONS];

static void *work(void *argument) {
    int *mine = argument;
    pthread_barrier_wait(&start_line_up);
    for (int i = 0; i < CALLS; i++) mine[which()]++;
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    int total[VERSIONS] = {0};
    /* As if the constructor had not run yet. */
    memset(&state_of_set, 0, sizeof state_of_set);
    memset(table_of_set, 0, sizeof table_of_set);
    offset_of_set = 0;
    pthread_barrier_init(&start_line_up, NULL, THREADS);
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, seen[t]);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++)
        for (int id = 0; id < VERSIONS; id++) total[id] += seen[t][id];
    for (int id = 0; id < VERSIONS; id++)
        if (total[id]) printf("version %d: %d\n", id, total[id]);
    return 0;
}
