/* Runs the stages of a pipeline. */
#include "pipeline.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine_affinity.h"
#include "engine_machine.h"
#include "engine_memory.h"
#include "engine_turns.h"
#include "internal.h"

/* A frame between push and pop. status: MAVCG_OK until a stage fails or the frame is cancelled; later stages then skip
 * it. */
struct frame_slot {
    void *tag;
    const void **inputs;
    void **outputs;
    uint32_t *counts;
    uint32_t float_mode;
    int status;
};

/* done: number of frames that the stage has completed. running: the stage is in a run, which a cancel can end. */
struct stage_state {
    uint64_t done;
    pthread_t thread;
    bool running;
};

/* The state of one process. It is all zero in a forked child, which has none of the parent's threads
 * (engine_process.h). */
struct pipeline_state {
    uint64_t owner; /* the process; IN_RESET is set while one of its threads resets the state */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t pushed, popped;
    uint32_t started; /* number of stages whose threads are running */
    bool stopping;
    struct stage_state stages[];
};

struct stage {
    struct pipeline *pipeline;
    void *context;
    struct stage_choice choice;
};

struct pipeline {
    struct pipeline_network network;
    struct shared_memory memory;
    struct pipeline_state *state;
    size_t state_bytes;
    bool cleared_in_child;
    uint32_t stage_count, slots;
    struct frame_slot *frames; /* [slots] */
    struct stage *stages;      /* [stage_count] */
};

static const uint64_t IN_RESET = (uint64_t)1 << 32;

/* Make the lock of a state that is all zeros. */
static bool make_lock(struct pipeline_state *state) {
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes)) return false;
    bool made = !pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) && !pthread_mutex_init(&state->lock, NULL);
    if (made && pthread_cond_init(&state->changed, &attributes)) {
        pthread_mutex_destroy(&state->lock);
        made = false;
    }
    pthread_condattr_destroy(&attributes);
    return made;
}

/* Lock the state. If it belonged to another process (this one was forked), reset it first. NULL: the system has no
 * memory for the lock; the next call tries again. */
static struct pipeline_state *lock_state(struct pipeline *pipeline) {
    struct pipeline_state *state = pipeline->state;
    uint64_t process = pipeline->cleared_in_child ? 1 : (uint32_t)getpid(), owner;
    while ((owner = __atomic_load_n(&state->owner, __ATOMIC_ACQUIRE)) != process) {
        if (owner == (process | IN_RESET)) {
            sched_yield();
            continue;
        }
        if (!__atomic_compare_exchange_n(&state->owner, &owner, process | IN_RESET, 0, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        memset((char *)state + sizeof state->owner, 0, pipeline->state_bytes - sizeof state->owner);
        bool made = make_lock(state);
        __atomic_store_n(&state->owner, made ? process : 0, __ATOMIC_RELEASE);
        if (!made) return NULL;
    }
    pthread_mutex_lock(&state->lock);
    return state;
}

static void unlock_state(struct pipeline_state *state) { pthread_mutex_unlock(&state->lock); }

/* Return the time `timeout_ms` milliseconds from now. */
static struct timespec deadline_in(int32_t timeout_ms) {
    static const long second_ns = 1000000000;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout_ms / 1000;
    end.tv_nsec += timeout_ms % 1000 * (second_ns / 1000);
    if (end.tv_nsec >= second_ns) {
        end.tv_sec++;
        end.tv_nsec -= second_ns;
    }
    return end;
}

/* Wait until the state changes. timeout_ms: below 0 waits for ever, 0 does not wait. Returns false on a timeout. */
static bool wait_for_change(struct pipeline_state *state, int32_t timeout_ms, const struct timespec *deadline) {
    if (timeout_ms < 0) return !pthread_cond_wait(&state->changed, &state->lock);
    return timeout_ms && pthread_cond_timedwait(&state->changed, &state->lock, deadline) != ETIMEDOUT;
}

static uint64_t frames_done(const struct pipeline *pipeline) {
    return pipeline->state->stages[pipeline->stage_count - 1].done;
}

static struct frame_slot *slot_of(const struct pipeline *pipeline, uint64_t number) {
    return &pipeline->frames[number % pipeline->slots];
}

/* True if a stage may begin its next frame: the preceding stage has completed that frame, and a copy of each buffer is
 * free. */
static bool can_begin(const struct pipeline *pipeline, uint32_t stage) {
    const struct pipeline_state *state = pipeline->state;
    uint64_t frame = state->stages[stage].done;
    if (frame == (stage ? state->stages[stage - 1].done : state->pushed)) return false;
    for (uint32_t later = stage + 1; later < pipeline->stage_count; later++)
        if (frame >= state->stages[later].done + (later - stage) + 1) return false;
    return true;
}

/* Run the next frame of a stage. The caller holds the state's lock; it is released during the run itself. */
static void run_next(struct pipeline *pipeline, uint32_t number) {
    struct pipeline_state *state = pipeline->state;
    struct stage_state *own = &state->stages[number];
    struct frame_slot *slot = slot_of(pipeline, own->done);
    const struct application_network *functions = pipeline->network.functions;
    int status = slot->status;
    if (!status) {
        const struct pipeline_frame frame = {own->done, slot->inputs, slot->outputs, slot->counts};
        void *context = pipeline->stages[number].context;
        functions->begin_frame(context);
        own->running = true;
        unlock_state(state);
        set_float_mode(slot->float_mode);
        status = functions->run_stage(context, &frame);
        pthread_mutex_lock(&state->lock);
        own->running = false;
    }
    if (!slot->status) slot->status = status;
    own->done++;
    if (number + 1 == pipeline->stage_count && own->done == state->pushed) end_turn(&pipeline->memory);
    pthread_cond_broadcast(&state->changed);
}

/* Name the calling thread mavcg-stage-<number>. The kernel accepts 15 bytes. */
static void name_stage(uint32_t number) {
    char name[16] = "mavcg-stage-";
    size_t length = strlen(name);
    if (number >= 10) name[length++] = (char)('0' + number / 10 % 10);
    name[length] = (char)('0' + number % 10);
    pthread_setname_np(pthread_self(), name);
}

static void *stage_main(void *argument) {
    struct stage *stage = argument;
    struct pipeline *pipeline = stage->pipeline;
    struct pipeline_state *state = pipeline->state;
    uint32_t number = (uint32_t)(stage - pipeline->stages);
    name_stage(number);
    if (stage->choice.cpu_count) set_affinity(stage->choice.cpus, stage->choice.cpu_count);
    pthread_mutex_lock(&state->lock);
    while (!state->stopping)
        if (can_begin(pipeline, number)) run_next(pipeline, number);
        else pthread_cond_wait(&state->changed, &state->lock);
    unlock_state(state);
    return NULL;
}

/* Cancel all frames that are not complete. The caller holds the state's lock. */
static void cancel_all(struct pipeline *pipeline) {
    struct pipeline_state *state = pipeline->state;
    for (uint64_t number = frames_done(pipeline); number < state->pushed; number++) {
        struct frame_slot *slot = slot_of(pipeline, number);
        if (!slot->status) slot->status = MAVCG_CANCELLED;
    }
    for (uint32_t stage = 0; stage < pipeline->stage_count; stage++)
        if (state->stages[stage].running) pipeline->network.functions->cancel(pipeline->stages[stage].context);
}

/* Stop and join the threads. The caller holds the state's lock, which is released. */
static void stop_stages(struct pipeline *pipeline) {
    struct pipeline_state *state = pipeline->state;
    state->stopping = true;
    cancel_all(pipeline);
    pthread_cond_broadcast(&state->changed);
    unlock_state(state);
    for (uint32_t stage = 0; stage < state->started; stage++) pthread_join(state->stages[stage].thread, NULL);
    state->started = 0;
    state->stopping = false;
}

/* Start the threads. The caller holds the state's lock; on failure it is released. Returns a status. */
static int start_stages(struct pipeline *pipeline) {
    struct pipeline_state *state = pipeline->state;
    sigset_t all, before;
    sigfillset(&all); /* block all signals: the program's own threads handle them */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (state->started < pipeline->stage_count &&
           !pthread_create(&state->stages[state->started].thread, NULL, stage_main, &pipeline->stages[state->started]))
        state->started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (state->started == pipeline->stage_count) return MAVCG_OK;
    stop_stages(pipeline);
    return MAVCG_ERROR_THREADS;
}

MAVCG_PRIVATE int push_frame(struct pipeline *pipeline, const void *const *inputs, void *const *outputs, void *frame,
                             int32_t timeout_ms) {
    const struct pipeline_network *network = &pipeline->network;
    int status = network->functions->check(network->context, inputs, outputs, NULL);
    if (status) return status;
    const struct timespec deadline = deadline_in(timeout_ms < 0 ? 0 : timeout_ms);
    struct pipeline_state *state = lock_state(pipeline);
    if (!state) return MAVCG_ERROR_MEMORY;
    while (state->pushed - state->popped == pipeline->slots)
        if (!wait_for_change(state, timeout_ms, &deadline)) {
            unlock_state(state);
            return MAVCG_AGAIN;
        }
    if (!state->started && (status = start_stages(pipeline)) != MAVCG_OK) return status;
    struct frame_slot *slot = slot_of(pipeline, state->pushed);
    if (network->functions->counts) /* again: the lengths may have changed during the wait */
        status = network->functions->check(network->context, inputs, outputs, slot->counts);
    if (status) {
        unlock_state(state);
        return status;
    }
    if (frames_done(pipeline) == state->pushed && !take_turn(&pipeline->memory)) {
        unlock_state(state);
        return MAVCG_BUSY;
    }
    memcpy(slot->inputs, inputs, network->model->input_count * sizeof *inputs);
    memcpy(slot->outputs, outputs, network->model->output_count * sizeof *outputs);
    slot->tag = frame;
    slot->float_mode = float_mode();
    slot->status = MAVCG_OK;
    state->pushed++;
    pthread_cond_broadcast(&state->changed);
    unlock_state(state);
    return MAVCG_OK;
}

MAVCG_PRIVATE int pop_frame(struct pipeline *pipeline, void **frame, int32_t timeout_ms) {
    const struct timespec deadline = deadline_in(timeout_ms < 0 ? 0 : timeout_ms);
    struct pipeline_state *state = lock_state(pipeline);
    if (!state) return MAVCG_ERROR_MEMORY;
    while (state->popped == frames_done(pipeline))
        if (!wait_for_change(state, timeout_ms, &deadline)) {
            unlock_state(state);
            return MAVCG_AGAIN;
        }
    const struct frame_slot *slot = slot_of(pipeline, state->popped++);
    int status = slot->status;
    if (frame) *frame = slot->tag;
    pthread_cond_broadcast(&state->changed);
    unlock_state(state);
    return status;
}

MAVCG_PRIVATE void cancel_frames(struct pipeline *pipeline) {
    struct pipeline_state *state = lock_state(pipeline);
    if (!state) return; /* no frames either */
    cancel_all(pipeline);
    unlock_state(state);
}

MAVCG_PRIVATE uint32_t stage_threads(const struct pipeline *pipeline, uint32_t stage) {
    return stage < pipeline->stage_count ? pipeline->stages[stage].choice.threads : 0;
}

static void free_pipeline(struct pipeline *pipeline) {
    for (uint32_t stage = 0; pipeline->stages && stage < pipeline->stage_count; stage++)
        if (pipeline->stages[stage].context) pipeline->network.functions->destroy(pipeline->stages[stage].context);
    for (uint32_t slot = 0; pipeline->frames && slot < pipeline->slots; slot++) {
        free(pipeline->frames[slot].inputs);
        free(pipeline->frames[slot].outputs);
        free(pipeline->frames[slot].counts);
    }
    free_child_cleared(pipeline->state, pipeline->state_bytes);
    free(pipeline->stages);
    free(pipeline->frames);
    free(pipeline);
}

static int fill_pipeline(struct pipeline *pipeline, const struct stage_choice *choices) {
    const mavcg_model_table *model = pipeline->network.model;
    pipeline->state = child_cleared_bytes(pipeline->state_bytes, &pipeline->cleared_in_child);
    pipeline->stages = calloc(pipeline->stage_count, sizeof *pipeline->stages);
    pipeline->frames = calloc(pipeline->slots, sizeof *pipeline->frames);
    if (!pipeline->state || !pipeline->stages || !pipeline->frames) return MAVCG_ERROR_MEMORY;
    for (uint32_t slot = 0; slot < pipeline->slots; slot++) {
        pipeline->frames[slot].inputs = calloc(model->input_count + 1, sizeof(void *));
        pipeline->frames[slot].outputs = calloc(model->output_count + 1, sizeof(void *));
        pipeline->frames[slot].counts = calloc(pipeline->network.functions->counts + 1, sizeof(uint32_t));
        if (!pipeline->frames[slot].inputs || !pipeline->frames[slot].outputs || !pipeline->frames[slot].counts)
            return MAVCG_ERROR_MEMORY;
    }
    uint32_t threads = 0;
    for (uint32_t number = 0; number < pipeline->stage_count; number++) {
        struct stage *stage = &pipeline->stages[number];
        stage->pipeline = pipeline;
        stage->choice = choices[number];
        int status = pipeline->network.functions->create_stage(&pipeline->memory, number, threads,
                                                               &stage->choice.threads, &stage->context);
        if (status) return status;
        threads += choices[number].threads;
    }
    return MAVCG_OK;
}

MAVCG_PRIVATE int create_pipeline(const struct pipeline_network *network, const struct shared_memory *memory,
                                  const struct stage_choice *choices, struct pipeline **created) {
    *created = NULL;
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (!pipeline) return MAVCG_ERROR_MEMORY;
    pipeline->network = *network;
    pipeline->memory = *memory;
    pipeline->stage_count = network->functions->stages;
    pipeline->slots = 2 * pipeline->stage_count; /* one per stage in work, and as many that wait for push or pop */
    pipeline->state_bytes = sizeof *pipeline->state + pipeline->stage_count * sizeof *pipeline->state->stages;
    int status = fill_pipeline(pipeline, choices);
    if (status) free_pipeline(pipeline);
    else *created = pipeline;
    return status;
}

MAVCG_PRIVATE void destroy_pipeline(struct pipeline *pipeline) {
    if (!pipeline) return;
    struct pipeline_state *state = lock_state(pipeline);
    if (state) {
        if (state->started) stop_stages(pipeline);
        else unlock_state(state);
        pthread_mutex_destroy(&state->lock);
        pthread_cond_destroy(&state->changed);
    }
    free_pipeline(pipeline);
}
