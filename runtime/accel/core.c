/* Executes the instructions of a job in program order, with the tokens that they pass to each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execution.h"

enum { MOST_CORES = 64, MOST_BYTES = 1 << 30 };

bool are_possible(const mavcg_accel_sizes *sizes) {
    uint64_t features = (uint64_t)sizes->feature_words * sizes->word;
    uint64_t weights = (uint64_t)sizes->weight_words * sizes->word * sizes->oc_lanes;
    return sizes->cores && sizes->cores <= MOST_CORES && sizes->word && sizes->word <= 1024 && sizes->oc_lanes &&
           sizes->oc_lanes <= 1024 && sizes->row_lanes && sizes->banks && sizes->rounding <= 2 &&
           features <= MOST_BYTES && weights <= MOST_BYTES;
}

void begin_job(struct execution *execution, struct memories *memories, const mavcg_accel_job *job) {
    *execution = (struct execution){.memories = memories, .job = *job, .mnemonic = ""};
    memset(memories->features_written, 0, memories->sizes.feature_words);
    memset(memories->weights_written, 0, memories->sizes.weight_words);
}

/* Take the tokens that an instruction waits for, and give those that it signals. */
static bool pass_tokens(struct execution *execution, const struct instruction *one) {
    uint32_t own = one->form->opcode, (*tokens)[UNIT_COUNT] = execution->tokens;
    char lacking[64] = "";
    size_t length = 0;
    for (uint32_t unit = 0; unit < UNIT_COUNT; unit++) {
        if (!(one->wait >> unit & 1)) continue;
        if (tokens[unit][own]) tokens[unit][own]--;
        else
            length += (size_t)snprintf(lacking + length, sizeof lacking - length, "%s%s", length ? "," : "",
                                       unit_names[unit]);
    }
    for (uint32_t unit = 0; unit < UNIT_COUNT; unit++) tokens[own][unit] += one->signal >> unit & 1;
    return !length ||
           fault(execution->memories, "waits for a token of %s that no earlier instruction signals", lacking);
}

static bool execute(struct memories *memories, const mavcg_accel_job *job, const struct instruction *one) {
    switch (one->form->kind) {
    case LOAD_MAP: return load_map(memories, job, one->values);
    case SAVE_MAP: return save_map(memories, job, one->values);
    case LOAD_PARAMETERS: return load_parameters(memories, job, one->values);
    default: return compute(memories, one);
    }
}

bool execute_next(struct execution *execution) {
    struct memories *memories = execution->memories;
    struct instruction one;
    memories->computed.bytes = NULL;
    execution->mnemonic = "";
    if (execution->at == execution->job.code_bytes) return fault(memories, "the code ends without misc.end");
    size_t bytes = decode(execution->job.code + execution->at, execution->job.code_bytes - execution->at, &one,
                          memories->fault);
    if (!bytes) return false;
    execution->mnemonic = one.form->name;
    if (!execution->number && one.form->kind != MISC_START)
        return fault(memories, "is not misc.start, which begins a program");
    if (!pass_tokens(execution, &one) || !count_operations(execution, &one)) return false;
    if (!execute(memories, &execution->job, &one)) return false;
    execution->at += bytes;
    execution->number++;
    execution->ended = one.form->kind == MISC_END;
    return true;
}

struct mavcg_accel_core {
    struct memories memories;
    struct execution execution;
};

int mavcg_accel_core_open(const mavcg_accel_sizes *sizes, const mavcg_accel_job *job, mavcg_accel_core **core) {
    if (!core) return MAVCG_ACCEL_BAD_ARGUMENT;
    *core = NULL;
    if (!sizes || !job || !are_possible(sizes)) return MAVCG_ACCEL_BAD_ARGUMENT;
    mavcg_accel_core *made = calloc(1, sizeof *made);
    if (!made) return MAVCG_ACCEL_NO_MEMORY;
    if (!make_memories(&made->memories, sizes)) {
        mavcg_accel_core_close(made);
        return MAVCG_ACCEL_NO_MEMORY;
    }
    begin_job(&made->execution, &made->memories, job);
    *core = made;
    return MAVCG_ACCEL_OK;
}

int mavcg_accel_core_step(mavcg_accel_core *core, mavcg_accel_tile *tile, char *message) {
    if (!core || !tile || core->execution.ended)
        return fail(message, MAVCG_ACCEL_BAD_ARGUMENT, "mavcg_accel_core_step: nothing to execute, or no tile");
    struct execution *execution = &core->execution;
    if (execute_next(execution)) {
        *tile = core->memories.computed;
        return !execution->ended;
    }
    bool named = *execution->mnemonic;
    return fail(message, MAVCG_ACCEL_DEVICE_ERROR, "instruction %u%s%s%s: %.200s", (unsigned)execution->number,
                named ? " (" : "", execution->mnemonic, named ? ")" : "", core->memories.fault);
}

void mavcg_accel_core_close(mavcg_accel_core *core) {
    if (!core) return;
    release_memories(&core->memories);
    free(core);
}
