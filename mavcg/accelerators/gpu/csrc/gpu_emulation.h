// CUDA's keywords and functions for kernels, as C++ on a CPU. The threads of a block are fibers that switch at
// __syncthreads, in either order; shared memory is initialised with poison; a cp.async copy takes effect at its wait.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define MAVCG_SHARED(name) word *const name = mavcg_emulation::shared

struct Index3 {
    unsigned x, y, z;
};

namespace mavcg_emulation {
typedef unsigned word_;
struct Copy {
    unsigned *to;
    unsigned value[4];
    int words;
};
struct Copies {  // of one thread; group_end[g] is the index after the last copy of group g
    Copy *all;
    int count, room, groups;
    int *group_end;
    int group_room;
};
struct Fiber {
    void *stack, *pointer;
    Index3 thread;
    bool ended;
    Copies copies;
};
typedef void Kernel(const void *, const void *, void *, const void *, const void *, void *);

inline Fiber *current;
inline void *scheduler;
inline Index3 block_index, block_size, grid_size;
inline unsigned *shared;
inline Kernel *kernel;
inline void **arguments;

extern "C" void mavcg_switch(void **save, void *load);
#if defined(__x86_64__)
__asm__(".text\n.globl mavcg_switch\nmavcg_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
constexpr int SAVED = 6;  // saved registers below the return address
#elif defined(__aarch64__)
__asm__(".text\n.globl mavcg_switch\nmavcg_switch:\n"
        "sub sp, sp, #160\n"
        "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
        "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
        "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
        "add sp, sp, #160\nret\n");
#else
#error "the emulation of CUDA kernels runs on x86-64 and aarch64"
#endif

inline void leave() { mavcg_switch(&current->pointer, scheduler); }

inline void fiber_main() {
    void **a = arguments;
    kernel(a[0], a[1], a[2], a[3], a[4], a[5]);
    current->ended = true;
    for (;;) leave();
}

inline void prepare(Fiber &fiber, size_t stack_bytes) {
    uintptr_t top = ((uintptr_t)fiber.stack + stack_bytes) & ~(uintptr_t)15;
#if defined(__x86_64__)
    void **at = (void **)top - 2;  // keeps the stack aligned as after a call
    *at = (void *)fiber_main;
    at -= SAVED;
    memset(at, 0, SAVED * sizeof(void *));
#else
    void **at = (void **)(top - 160);
    memset(at, 0, 160);
    at[11] = (void *)fiber_main;  // x30
#endif
    fiber.pointer = at;
    fiber.ended = false;
    fiber.copies.count = fiber.copies.groups = 0;
}

inline void push_copy(unsigned *to, const unsigned *from, bool inside, int words) {
    Copies &c = current->copies;
    if (c.count == c.room) c.all = (Copy *)realloc(c.all, (c.room = c.room ? 2 * c.room : 64) * sizeof(Copy));
    Copy &copy = c.all[c.count++];
    copy.to = to, copy.words = words;
    for (int i = 0; i < words; ++i) copy.value[i] = inside ? from[i] : 0;
}

inline void commit() {
    Copies &c = current->copies;
    if (c.groups == c.group_room) c.group_end = (int *)realloc(c.group_end, (c.group_room += 16) * sizeof(int));
    c.group_end[c.groups++] = c.count;
}

inline void wait(int later) {
    Copies &c = current->copies;
    if (c.groups <= later) return;
    const int done_groups = c.groups - later, done = c.group_end[done_groups - 1];
    for (int i = 0; i < done; ++i) memcpy(c.all[i].to, c.all[i].value, 4 * c.all[i].words);
    memmove(c.all, c.all + done, (c.count - done) * sizeof(Copy));
    c.count -= done;
    for (int g = 0; g < later; ++g) c.group_end[g] = c.group_end[g + done_groups] - done;
    c.groups = later;
}

enum Fault { NO_FAULT, DIVERGENT_BARRIER = 1, SHARED_OVERRUN = 2 };
constexpr unsigned POISON = 0xffa5a5a5u;  // a NaN as f32; its high half is a NaN as f16

inline int run(Kernel *which, const unsigned *grid, unsigned threads, unsigned shared_bytes, int descending, void **args) {
    constexpr size_t STACK = 64 << 10, GUARD = 64;
    const size_t words = (shared_bytes + 3) / 4;
    int faults = NO_FAULT;
    kernel = which, arguments = args;
    block_size = {threads, 1, 1}, grid_size = {grid[0], grid[1], grid[2]};
    unsigned *const memory = (unsigned *)aligned_alloc(64, (words + 2 * GUARD + 16) / 16 * 64);
    shared = memory + GUARD;
    Fiber *const fibers = (Fiber *)calloc(threads, sizeof(Fiber));
    char *const stacks = (char *)malloc(STACK * threads);
    for (unsigned t = 0; t < threads; ++t) fibers[t].stack = stacks + STACK * t;
    for (unsigned z = 0; z < grid[2]; ++z)
        for (unsigned y = 0; y < grid[1]; ++y)
            for (unsigned x = 0; x < grid[0]; ++x) {
                block_index = {x, y, z};
                for (size_t i = 0; i < words + 2 * GUARD; ++i) memory[i] = POISON;
                for (unsigned t = 0; t < threads; ++t) {
                    fibers[t].thread = {t, 0, 0};
                    prepare(fibers[t], STACK);
                }
                for (unsigned ended = 0; ended < threads;) {
                    unsigned left = 0;
                    ended = 0;
                    for (unsigned i = 0; i < threads; ++i) {
                        current = &fibers[descending ? threads - 1 - i : i];
                        const bool before = current->ended;
                        if (!before) mavcg_switch(&scheduler, current->pointer);
                        ended += current->ended;
                        left += !current->ended;
                    }
                    if (ended && left) faults |= DIVERGENT_BARRIER;
                }
                for (size_t i = 0; i < GUARD; ++i)
                    if (memory[i] != POISON || memory[GUARD + words + i] != POISON) faults |= SHARED_OVERRUN;
            }
    for (unsigned t = 0; t < threads; ++t) free(fibers[t].copies.all), free(fibers[t].copies.group_end);
    free(fibers), free(stacks), free(memory);
    return faults;
}
}  // namespace mavcg_emulation

#define threadIdx (mavcg_emulation::current->thread)
#define blockIdx mavcg_emulation::block_index
#define blockDim mavcg_emulation::block_size
#define gridDim mavcg_emulation::grid_size

inline void __syncthreads() { mavcg_emulation::leave(); }
inline int min(int a, int b) { return a < b ? a : b; }

inline float as_float(unsigned x) { float f; memcpy(&f, &x, 4); return f; }
inline unsigned as_word(float f) { unsigned x; memcpy(&x, &f, 4); return x; }

inline float float_of_half(unsigned short bits) { _Float16 h; memcpy(&h, &bits, 2); return (float)h; }
inline unsigned short half_of(float x) { const _Float16 h = (_Float16)x; unsigned short bits; memcpy(&bits, &h, 2); return bits; }
inline void halves_to_floats(unsigned x, float &low, float &high) {
    low = float_of_half((unsigned short)x), high = float_of_half((unsigned short)(x >> 16));
}

inline int dot4(unsigned a, unsigned b, int sum) {
    unsigned total = (unsigned)sum;
    for (int i = 0; i < 32; i += 8) total += (unsigned)((int)(signed char)(a >> i) * (int)(signed char)(b >> i));
    return (int)total;
}
inline int round_to_int(float x) {  // as cvt.rni.s32.f32: ties to even, clamped, 0 for NaN
    const float r = nearbyintf(x);
    return r != r ? 0 : r >= 2147483648.0f ? INT32_MAX : r < -2147483648.0f ? INT32_MIN : (int)r;
}
inline float product(float a, float b) { volatile float p = a * b; return p; }

inline void copy_word(unsigned *to, const unsigned *from, bool inside) { mavcg_emulation::push_copy(to, from, inside, 1); }
inline void copy_word4(unsigned *to, const unsigned *from, bool inside) { mavcg_emulation::push_copy(to, from, inside, 4); }
inline void commit_copies() { mavcg_emulation::commit(); }
template <int LATER> inline void wait_for_copies() { mavcg_emulation::wait(LATER); }
