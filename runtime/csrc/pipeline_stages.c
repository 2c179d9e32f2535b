/* Chooses CPUs and threads for the stages of a pipeline. */
#include <stdbool.h>
#include <string.h>

#include "engine_machine.h"
#include "internal.h"
#include "pipeline.h"

static int choose_place(const mavcg_stage_place *place, struct stage_choice *choice) {
    if (place->threads < 0 || place->threads > STAGE_CPUS || place->cpu_count > STAGE_CPUS || place->reserved)
        return MAVCG_ERROR_OPTION;
    if (place->cpu_count && !place->cpus) return MAVCG_ERROR_NULL;
    for (uint32_t i = 0; i < place->cpu_count; i++)
        if (place->cpus[i] >= MAVCG_CPUS) return MAVCG_ERROR_OPTION;
    choice->cpu_count = place->cpu_count;
    if (place->cpu_count) memcpy(choice->cpus, place->cpus, place->cpu_count * sizeof *choice->cpus);
    choice->threads = place->threads ? (uint32_t)place->threads : place->cpu_count ? place->cpu_count : 1;
    return MAVCG_OK;
}

/* Give each stage the CPUs that were predicted for it; stages with the same CPUs divide them. False if a stage finds
 * none of its CPUs here. */
static bool choose_predicted(const struct application_network *functions, const uint16_t *cpus, uint32_t count,
                             struct stage_choice *choices) {
    bool taken[MAVCG_CPUS] = {false};
    for (uint32_t stage = 0; stage < functions->stages; stage++) {
        struct stage_choice *choice = &choices[stage];
        uint16_t own[STAGE_CPUS];
        memcpy(own, cpus, count * sizeof *own);
        uint32_t found = functions->stage_cpus(stage, own, count, &choice->threads);
        choice->cpu_count = 0;
        for (uint32_t i = 0; i < found && choice->cpu_count < choice->threads; i++) {
            if (taken[own[i]]) continue;
            taken[own[i]] = true;
            choice->cpus[choice->cpu_count++] = own[i];
        }
        if (!choice->cpu_count || choice->cpu_count < choice->threads) return false;
    }
    return true;
}

/* Give each stage an equal share of the CPUs. With fewer CPUs than stages, each stage has one thread, which may run on
 * any CPU. */
static void choose_shares(const struct application_network *functions, const uint16_t *cpus, uint32_t count,
                          struct stage_choice *choices) {
    for (uint32_t stage = 0; stage < functions->stages; stage++) {
        uint32_t begin = stage * count / functions->stages, end = (stage + 1) * count / functions->stages;
        struct stage_choice *choice = &choices[stage];
        choice->cpu_count = count < functions->stages ? 0 : end - begin;
        choice->threads = choice->cpu_count ? choice->cpu_count : 1;
        memcpy(choice->cpus, cpus + begin, choice->cpu_count * sizeof *cpus);
    }
}

MAVCG_PRIVATE int choose_stages(const struct application_network *functions, uint32_t network,
                                const mavcg_stage_place *places, uint32_t count, struct stage_choice *choices) {
    uint16_t cpus[STAGE_CPUS];
    uint32_t allowed = allowed_cpus(cpus, STAGE_CPUS);
    if (allowed > STAGE_CPUS) allowed = STAGE_CPUS;
    if (!choose_predicted(functions, cpus, allowed, choices)) choose_shares(functions, cpus, allowed, choices);
    for (uint32_t i = 0; i < count; i++) {
        if (places[i].network != network) continue;
        if (places[i].stage >= functions->stages) return MAVCG_ERROR_OPTION;
        int status = choose_place(&places[i], &choices[places[i].stage]);
        if (status) return status;
    }
    return MAVCG_OK;
}
