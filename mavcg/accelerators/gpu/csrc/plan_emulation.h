// The part of CUDA's runtime API that plans call, on host memory: for tests without a GPU.
#pragma once
typedef int cudaError_t;
enum { cudaSuccess = 0, cudaErrorInvalid = 1 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
struct cudaPitchedPtr { void *ptr; size_t pitch, xsize, ysize; };
struct cudaExtent { size_t width, height, depth; };
struct cudaMemcpy3DParms { cudaPitchedPtr srcPtr, dstPtr; cudaExtent extent; cudaMemcpyKind kind; };
static inline cudaPitchedPtr make_cudaPitchedPtr(void *p, size_t pitch, size_t x, size_t y) { return {p, pitch, x, y}; }
static inline cudaExtent make_cudaExtent(size_t w, size_t h, size_t d) { return {w, h, d}; }
static inline const char *cudaGetErrorString(cudaError_t) { return "a pitch is smaller than its rows"; }
static inline cudaError_t cudaGetLastError() { return cudaSuccess; }
static inline cudaError_t cudaFree(void *p) { free(p); return cudaSuccess; }
static inline cudaError_t cudaMalloc(void **p, size_t bytes) {
    *p = malloc(bytes);
    memset(*p, 0xa5, bytes);  // memory is never zero-initialised
    return *p ? cudaSuccess : cudaErrorInvalid;
}
static inline cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                       size_t height, cudaMemcpyKind) {
    if (height > 1 && (to_pitch < width || from_pitch < width)) return cudaErrorInvalid;
    for (size_t row = 0; row < height; row++) memcpy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *p) {
    for (size_t z = 0; z < p->extent.depth; z++) {
        void *const to = (char *)p->dstPtr.ptr + z * p->dstPtr.pitch * p->dstPtr.ysize;
        const void *const from = (const char *)p->srcPtr.ptr + z * p->srcPtr.pitch * p->srcPtr.ysize;
        if (cudaMemcpy2D(to, p->dstPtr.pitch, from, p->srcPtr.pitch, p->extent.width, p->extent.height, p->kind))
            return cudaErrorInvalid;
    }
    return cudaSuccess;
}
#define PLAN_LAUNCH(kernel, blocks, threads, ...)                                  \
    do {                                                                           \
        mavcg_emulation::Fiber fiber = {};                                         \
        mavcg_emulation::current = &fiber;                                         \
        for (unsigned b = 0; b < (unsigned)(blocks); b++)                          \
            for (unsigned t = 0; t < (unsigned)(threads); t++) {                   \
                mavcg_emulation::block_index = {b, 0, 0};                          \
                fiber.thread = {t, 0, 0};                                          \
                kernel(__VA_ARGS__);                                               \
            }                                                                      \
    } while (0)
