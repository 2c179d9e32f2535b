/* Serves the tracker of libapp.so beside a program on an accelerator: jobs, a stop, and what is refused. */
#include <stdio.h>
#include <stdlib.h>

#include "app.h"
#include "mavcg_accel_service.h"

enum { TRACKER, PROGRAM };
static app_application *app;

static void check(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

struct counted {
    unsigned begun, ended, stop_after;
};

static int on_job(void *data, const mavcg_job *job) {
    struct counted *counted = data;
    if (job->network != PROGRAM) return 0;
    if (job->end_ns) counted->ended++;
    else if (++counted->begun == counted->stop_after) app_stop_service(app);
    return 0;
}

static void *zeros(size_t bytes) {
    void *data = calloc(1, bytes);
    check(data != NULL, "memory");
    return data;
}

static void check_refused(mavcg_service *service, const mavcg_accelerated *good) {
    mavcg_accelerated bad[4] = {*good, *good, *good, *good};
    bad[0].parts = 1;
    bad[1].slots = 0;
    bad[2].run_part = NULL;
    bad[3].reserved = 1;
    for (int i = 0; i < 4; i++)
        check(app_serve_accelerated(app, service, &bad[i], 1) == MAVCG_ERROR_OPTION, "a bad network");
    check(app_serve_accelerated(app, service, NULL, 1) == MAVCG_ERROR_NULL, "NULL");
    check(app_serve_application(app, service) == MAVCG_ERROR_OPTION, "a number that is not there");
}

int main(int count, char **arguments) {
    char message[256];
    mavcg_accel_service *own = NULL;
    mavcg_accelerated network;
    check(count == 2 && app_create_application(NULL, &app) == MAVCG_OK, "create");
    check(mavcg_accel_service_open("nothing.elf", 1, 1, &own, message) == MAVCG_ACCEL_BAD_FILE && *message, "no file");
    check(mavcg_accel_service_open(arguments[1], 0, 1, &own, message) == MAVCG_ACCEL_BAD_ARGUMENT, "no slots");
    check(mavcg_accel_service_open(arguments[1], 4, 1, &own, message) == MAVCG_ACCEL_OK, message);
    mavcg_accel_service_network(own, 0, &network);
    const mavcg_accel_program *program = mavcg_accel_service_program(own);
    const mavcg_app_table *table = mavcg_app_api();
    const void *inputs[2] = {zeros(table->networks[TRACKER].model->inputs[0].bytes),
                             zeros(mavcg_accel_input(program, 0)->elements * sizeof(float))};
    void *outputs[2] = {zeros(table->networks[TRACKER].model->outputs[0].bytes),
                        zeros(mavcg_accel_output(program, 0)->elements * sizeof(float))};
    const uint64_t ms = 1000000, second = 1000 * ms;
    const mavcg_periodic networks[2] = {{.network = TRACKER,
                                         .priority = 1,
                                         .period_ns = 2 * ms,
                                         .deadline_ns = 100 * second,
                                         .preemptible = 1,
                                         .inputs = &inputs[0],
                                         .outputs = &outputs[0]},
                                        {.network = PROGRAM,
                                         .priority = 2,
                                         .period_ns = ms,
                                         .deadline_ns = 100 * second,
                                         .inputs = &inputs[1],
                                         .outputs = &outputs[1]}};
    struct counted counted = {0};
    mavcg_service service = {
        .networks = networks, .count = 2, .duration_ns = 6 * ms, .on_job = on_job, .data = &counted};
    check(app_serve_accelerated(app, &service, &network, 1) == MAVCG_OK, mavcg_accel_service_message(own));
    check(counted.begun == 6 && counted.ended == 6 && service.job_count == 9, "jobs of 6 ms");
    check(mavcg_accel_service_take_part_ns(own, 0) > 0 && !mavcg_accel_service_take_part_ns(own, 9), "times of parts");

    counted = (struct counted){.stop_after = 3};
    service.duration_ns = UINT64_MAX;
    check(app_serve_accelerated(app, &service, &network, 1) == MAVCG_OK, "a stop");
    check(counted.begun == 3 && counted.ended == 3, "jobs under way at a stop run to their ends");

    check_refused(&service, &network);
    mavcg_accel_service_close(own);
    mavcg_accel_service_close(NULL);
    app_destroy_application(app);
    for (int i = 0; i < 2; i++) {
        free((void *)inputs[i]);
        free(outputs[i]);
    }
    puts("done");
    return 0;
}
