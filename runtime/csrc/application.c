/* Defines the exported functions of an application's library: one memory block, and one context in it for each
 * network. */
#include <stdbool.h>
#include <stdlib.h>

#include "application_api.h"
#include "application_memory.h"
#include "application_service.h"
#include "engine_library.h"
#include "engine_memory.h"
#include "internal.h"
#include "mavcg_application_tables.h" /* generated, see runtime/application_text.py */
#include "pipeline.h"

enum { APPLICATION_ALIGN = 4096 }; /* ARENA_ALIGN of engine.h */

struct application {
    char *arena, *scratch;
    size_t scratch_bytes; /* in bytes, of all threads */
    uint64_t *taken;
    void *library;
    struct shared_memory memory[NETWORKS];
    void *contexts[NETWORKS];
    struct pipeline *pipelines[NETWORKS]; /* NULL: the network has no pipeline */
    uint32_t service;                     /* state of the service, application_service.h */
};

static void free_application(struct application *application) {
    for (uint32_t i = 0; i < NETWORKS; i++) destroy_pipeline(application->pipelines[i]);
    for (uint32_t i = 0; i < NETWORKS; i++)
        if (application->contexts[i]) network_table[i]->destroy(application->contexts[i]);
    free_working(application->arena, APPLICATION_ARENA_BYTES);
    free_working(application->scratch, application->scratch_bytes);
    free_child_cleared(application->taken, sizeof *application->taken);
    free(application);
}

/* Get the largest number of threads that a context, or all stages of one network together, would have. stages: receives
 * the choice for each stage, of all networks one after the other. Returns a status. */
static int most_threads(const mavcg_options *options, const mavcg_stage_place *places, uint32_t place_count,
                        struct stage_choice *stages, uint32_t *most) {
    *most = 1;
    for (uint32_t i = 0; i < NETWORKS; i++) {
        uint32_t threads = 1;
        int status = network_table[i]->count_threads(options, &threads);
        if (status) return status;
        if (threads > *most) *most = threads;
        status = choose_stages(network_table[i], i, places, place_count, stages);
        if (status) return status;
        threads = 0;
        for (uint32_t end = network_table[i]->stages; end; end--) threads += stages++->threads;
        if (threads > *most) *most = threads;
    }
    return MAVCG_OK;
}

static int create_contexts(struct application *application, const mavcg_options *options,
                           const struct stage_choice *stages, uint32_t threads, bool cleared) {
    for (uint32_t i = 0; i < NETWORKS; i++) {
        application->memory[i] = (struct shared_memory){
            .arena = application->arena + placed_networks[i].arena_offset,
            .scratch = application->scratch + scratch_offsets[i] * threads,
            .taken = application->taken,
            .own = (uint32_t)1 << i,
            .conflicts_with = placed_networks[i].conflicts_with,
            .max_threads = threads,
            .cleared_in_child = cleared,
        };
        int status = network_table[i]->create(options, &application->memory[i], &application->contexts[i]);
        if (status) return status;
        if (!network_table[i]->stages) continue;
        const struct pipeline_network network = {network_table[i], placed_networks[i].model, application->contexts[i]};
        status = create_pipeline(&network, &application->memory[i], stages, &application->pipelines[i]);
        if (status) return status;
        stages += network.functions->stages;
    }
    return MAVCG_OK;
}

static int create_in_memory(const mavcg_options *options, const struct stage_choice *stages, uint32_t threads,
                            void **created) {
    struct application *application = calloc(1, sizeof *application);
    if (!application) return MAVCG_ERROR_MEMORY;
    bool cleared = false;
    application->scratch_bytes = (size_t)APPLICATION_SCRATCH_BYTES * threads;
    application->arena = working_bytes(APPLICATION_ARENA_BYTES, APPLICATION_ALIGN);
    application->scratch = working_bytes(application->scratch_bytes, APPLICATION_ALIGN);
    application->taken = child_cleared_bytes(sizeof *application->taken, &cleared);
    bool complete = application->arena && application->scratch && application->taken;
    int status = complete ? create_contexts(application, options, stages, threads, cleared) : MAVCG_ERROR_MEMORY;
    if (status) {
        free_application(application);
        return status;
    }
    application->library = keep_loaded(network_table);
    *created = application;
    return MAVCG_OK;
}

static int create_placed_application(const mavcg_options *options, const mavcg_stage_place *places,
                                     uint32_t place_count, void **created) {
    if (!created) return MAVCG_ERROR_NULL;
    *created = NULL;
    if (place_count && !places) return MAVCG_ERROR_NULL;
    uint32_t threads = 0, stage_count = 0;
    for (uint32_t i = 0; i < NETWORKS; i++) stage_count += network_table[i]->stages;
    for (uint32_t i = 0; i < place_count; i++)
        if (places[i].network >= NETWORKS) return MAVCG_ERROR_OPTION;
    struct stage_choice *stages = calloc(stage_count + 1, sizeof *stages);
    if (!stages) return MAVCG_ERROR_MEMORY;
    int status = most_threads(options, places, place_count, stages, &threads);
    if (!status) status = create_in_memory(options, stages, threads, created);
    free(stages);
    return status;
}

static int create_application(const mavcg_options *options, void **created) {
    return create_placed_application(options, NULL, 0, created);
}

static void destroy_application(void *application) {
    if (!application) return;
    void *library = ((struct application *)application)->library;
    free_application(application);
    void (*unload)(void *) = unload_library;
    __asm__("" : "+r"(unload)); /* call by address: on aarch64 a tail call cannot name a weak symbol */
    if (library) LAST_CALL unload(library);
}

static void *context_of_network(void *application, uint32_t network) {
    return application && network < NETWORKS ? ((struct application *)application)->contexts[network] : NULL;
}

/* Return the pipeline of a network, or NULL if the application or the pipeline does not exist. */
static struct pipeline *pipeline_of(void *application, uint32_t network) {
    return application && network < NETWORKS ? ((struct application *)application)->pipelines[network] : NULL;
}

static int push_to_network(void *application, uint32_t network, const void *const *inputs, void *const *outputs,
                           void *frame, int32_t timeout_ms) {
    struct pipeline *pipeline = pipeline_of(application, network);
    return pipeline ? push_frame(pipeline, inputs, outputs, frame, timeout_ms) : MAVCG_ERROR_NULL;
}

static int pop_of_network(void *application, uint32_t network, void **frame, int32_t timeout_ms) {
    struct pipeline *pipeline = pipeline_of(application, network);
    return pipeline ? pop_frame(pipeline, frame, timeout_ms) : MAVCG_ERROR_NULL;
}

static int cancel_frames_of_network(void *application, uint32_t network) {
    struct pipeline *pipeline = pipeline_of(application, network);
    if (!pipeline) return MAVCG_ERROR_NULL;
    cancel_frames(pipeline);
    return MAVCG_OK;
}

static int stage_threads_of_network(void *application, uint32_t network, uint32_t stage) {
    struct pipeline *pipeline = pipeline_of(application, network);
    uint32_t threads = pipeline ? stage_threads(pipeline, stage) : 0;
    return threads ? (int)threads : MAVCG_ERROR_NULL;
}

static int serve_accelerated_networks(void *of, mavcg_service *service, const mavcg_accelerated *accelerated,
                                      uint32_t accelerated_count) {
    struct application *application = of;
    if (!application) return MAVCG_ERROR_NULL;
    const struct served_application served = {network_table, placed_networks, application->contexts, NETWORKS,
                                              &application->service};
    return serve_application(&served, service, accelerated, accelerated_count);
}

static int serve_networks(void *application, mavcg_service *service) {
    return serve_accelerated_networks(application, service, NULL, 0);
}

static int stop_service_of_networks(void *application) {
    if (!application) return MAVCG_ERROR_NULL;
    stop_application_service(&((struct application *)application)->service);
    return MAVCG_OK;
}

static const mavcg_app_table application_table = {
    .api = MAVCG_APP_API,
    .network_count = NETWORKS,
    .name = APPLICATION_NAME,
    .networks = placed_networks,
    .arena_bytes = APPLICATION_ARENA_BYTES,
    .scratch_bytes = APPLICATION_SCRATCH_BYTES,
    .create = create_application,
    .destroy = destroy_application,
    .context = context_of_network,
    .create_placed = create_placed_application,
    .push = push_to_network,
    .pop = pop_of_network,
    .cancel_frames = cancel_frames_of_network,
    .stage_threads = stage_threads_of_network,
    .serve = serve_networks,
    .stop_service = stop_service_of_networks,
    .serve_accelerated = serve_accelerated_networks,
};

/* Export under an alias, as engine_api.c does for the functions of a model. */
#define EXPORT_APPLICATION(name, function)                                                     \
    extern __typeof__(function) exported_application_##name __asm__(APPLICATION_API "_" #name) \
        __attribute__((alias(#function), visibility("default")))

EXPORT_APPLICATION(create, create_application);
EXPORT_APPLICATION(destroy, destroy_application);
EXPORT_APPLICATION(context, context_of_network);
EXPORT_APPLICATION(create_placed, create_placed_application);
EXPORT_APPLICATION(push, push_to_network);
EXPORT_APPLICATION(pop, pop_of_network);
EXPORT_APPLICATION(cancel_frames, cancel_frames_of_network);
EXPORT_APPLICATION(stage_threads, stage_threads_of_network);
EXPORT_APPLICATION(serve, serve_networks);
EXPORT_APPLICATION(stop_service, stop_service_of_networks);
EXPORT_APPLICATION(serve_accelerated, serve_accelerated_networks);

/* Entry point for programs that load the library of any application. */
__attribute__((visibility("default"))) const mavcg_app_table *mavcg_app_api(void) { return &application_table; }
