/* Serves the detector and the tracker of libapp.so: a service that ends by its time, by its callback and by another
 * thread, one beside another, and what is refused. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "app.h"

enum { DETECTOR, RECOGNISER, TRACKER };
static app_application *app;

struct counted {
    unsigned begun, ended, skipped, most;
    int nested; /* status of a service within the service */
};

static void check(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

static int on_job(void *data, const mavcg_job *job) {
    struct counted *counted = data;
    if (job->status == MAVCG_SKIPPED) counted->skipped++;
    else if (!job->end_ns) counted->begun++;
    else counted->ended++;
    check(job->network == DETECTOR || job->network == TRACKER, "the network of a job");
    if (!counted->begun) return 0;
    mavcg_periodic other = {.network = RECOGNISER, .period_ns = 1, .deadline_ns = 1};
    mavcg_service inner = {.networks = &other, .count = 1, .duration_ns = 1};
    counted->nested = app_serve_application(app, &inner);
    return counted->most && counted->begun >= counted->most;
}

static void *serve(void *service) {
    static int status;
    status = app_serve_application(app, service);
    return &status;
}

static void *zeros(size_t bytes) {
    void *data = calloc(1, bytes);
    check(data != NULL, "memory");
    return data;
}

int main(void) {
    check(app_create_application(NULL, &app) == MAVCG_OK, "create");
    const mavcg_app_table *table = mavcg_app_api();
    const void *inputs[2] = {zeros(table->networks[DETECTOR].model->inputs[0].bytes),
                             zeros(table->networks[TRACKER].model->inputs[0].bytes)};
    void *outputs[2] = {zeros(table->networks[DETECTOR].model->outputs[0].bytes),
                        zeros(table->networks[TRACKER].model->outputs[0].bytes)};
    const uint64_t ms = 1000000, second = 1000 * ms;
    mavcg_periodic networks[2] = {{.network = DETECTOR,
                                   .priority = 1,
                                   .period_ns = 20 * ms,
                                   .deadline_ns = 100 * second,
                                   .preemptible = 1,
                                   .inputs = &inputs[0],
                                   .outputs = &outputs[0]},
                                  {.network = TRACKER,
                                   .priority = 2,
                                   .period_ns = 7 * ms,
                                   .deadline_ns = 100 * second,
                                   .preemptible = 1,
                                   .inputs = &inputs[1],
                                   .outputs = &outputs[1]}};
    struct counted counted = {0};
    mavcg_job jobs[4];
    mavcg_service service = {.networks = networks,
                             .count = 2,
                             .duration_ns = 50 * ms,
                             .on_job = on_job,
                             .data = &counted,
                             .jobs = jobs,
                             .job_capacity = 4};
    check(app_serve_application(app, &service) == MAVCG_OK, "a service of 50 ms");
    check(counted.begun == 3 + 8 && counted.ended == 3 + 8 && service.job_count == 11, "jobs of 50 ms");
    check(counted.nested == MAVCG_BUSY, "a service within a service");
    check(jobs[0].network == TRACKER && !jobs[0].release_ns && jobs[0].end_ns > jobs[0].begin_ns, "the first job");

    counted = (struct counted){.most = 5};
    service.duration_ns = UINT64_MAX;
    check(app_serve_application(app, &service) == MAVCG_OK && counted.begun >= 5 && counted.begun < 50, "a callback");

    networks[1].deadline_ns = 1; /* only a job that is noticed within a ns would begin */
    counted = (struct counted){0};
    service.duration_ns = 50 * ms;
    check(app_serve_application(app, &service) == MAVCG_OK && counted.skipped >= 7, "jobs that are late");
    networks[1].deadline_ns = second;

    pthread_t thread;
    void *status;
    service.duration_ns = UINT64_MAX;
    check(!pthread_create(&thread, NULL, serve, &service), "a thread");
    for (int tries = 0; tries < 300; tries++) { /* it may not have begun */
        check(app_stop_service(app) == MAVCG_OK, "stop");
        const struct timespec nap = {.tv_nsec = 1000000};
        nanosleep(&nap, NULL);
    }
    check(!pthread_join(thread, &status) && *(int *)status == MAVCG_OK, "a service that was stopped");

    networks[1].priority = 1;
    check(app_serve_application(app, &service) == MAVCG_ERROR_OPTION, "equal priorities");
    networks[1].priority = 2;
    networks[1].period_ns = 0;
    check(app_serve_application(app, &service) == MAVCG_ERROR_OPTION, "no period");
    check(app_serve_application(app, NULL) == MAVCG_ERROR_NULL && app_stop_service(NULL) == MAVCG_ERROR_NULL, "NULL");
    service.networks = NULL;
    check(app_serve_application(app, &service) == MAVCG_ERROR_NULL, "no networks");
    app_destroy_application(app);
    for (int i = 0; i < 2; i++) {
        free((void *)inputs[i]);
        free(outputs[i]);
    }
    puts("done");
    return 0;
}
