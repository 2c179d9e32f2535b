/* Declarations of the libraries of applications: several networks in one memory. */
#ifndef MAVCG_APP_API
#define MAVCG_APP_API 1

#include <stdint.h>

#include "engine_api.h"

/* A network's buffers in the memory of its application. */
typedef struct mavcg_app_network {
    const mavcg_model_table *model;
    uint64_t arena_offset; /* in bytes */
    /* The networks that share memory with it, itself included, a bit for each number: they take turns. */
    uint32_t conflicts_with;
} mavcg_app_network;

/* The functions and tables of an application's library, for programs that load any: its exported function
 * mavcg_app_api() returns them. */
typedef struct mavcg_app_table {
    uint32_t api; /* MAVCG_APP_API */
    uint32_t network_count;
    const char *name;
    const mavcg_app_network *networks;
    /* Of the application's memory: buffers, and scratch for each thread of a network. */
    uint64_t arena_bytes, scratch_bytes;
    int (*create)(const mavcg_options *options, void **application);
    void (*destroy)(void *application);
    void *(*context)(void *application, uint32_t network);
} mavcg_app_table;

#ifdef __cplusplus
extern "C" {
#endif
const mavcg_app_table *mavcg_app_api(void);
#ifdef __cplusplus
}
#endif

#endif
