/* Register tiles of a BLAS library. Made by mavcg. */
#define MAVCG_SET 2eb1f0b8fb62b090
#define VERSIONS 4
static const uint32_t base_needs[1][X86_WORDS] = {
    {0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0},
};
static const struct blas_blocks blocks_table[] = {
    {4, 4, 4, 1, 256, 64, 512}, /* f32 */
    {8, 2, 2, 1, 256, 64, 512}, /* f64 */
};
#define SPIN_US 50
#define EQUAL_CORES 0
static void *const core_ids[] = {
    (void *)0,
    (void *)1,
    (void *)2,
    (void *)3,
};
static uint64_t core_runs[4];
static const uint16_t core_speeds[] = {
    100, /* generic */
    100, /* generic */
    100, /* cortex-a55 */
    256, /* cortex-a75 */
};
extern blas_tile f32_0_0 __asm__("f32_packed.generic") __attribute__((visibility("hidden")));
extern blas_tile f32_0_1 __asm__("f32_strided.generic") __attribute__((visibility("hidden")));
static blas_tile *const f32_tiles_0[] = {
    f32_0_0,
    f32_0_1,
};
extern blas_tile f32_1_0 __asm__("f32_packed.cortex-a55") __attribute__((visibility("hidden")));
extern blas_tile f32_1_1 __asm__("f32_strided.cortex-a55") __attribute__((visibility("hidden")));
static blas_tile *const f32_tiles_1[] = {
    f32_1_0,
    f32_1_1,
};
extern blas_tile f32_2_0 __asm__("f32_packed.cortex-a75") __attribute__((visibility("hidden")));
extern blas_tile f32_2_1 __asm__("f32_strided.cortex-a75") __attribute__((visibility("hidden")));
static blas_tile *const f32_tiles_2[] = {
    f32_2_0,
    f32_2_1,
};
extern blas_tile f64_0_0 __asm__("f64_packed.generic") __attribute__((visibility("hidden")));
extern blas_tile f64_0_1 __asm__("f64_strided.generic") __attribute__((visibility("hidden")));
static blas_tile *const f64_tiles_0[] = {
    f64_0_0,
    f64_0_1,
};
extern blas_tile f64_1_0 __asm__("f64_packed.cortex-a55") __attribute__((visibility("hidden")));
extern blas_tile f64_1_1 __asm__("f64_strided.cortex-a55") __attribute__((visibility("hidden")));
static blas_tile *const f64_tiles_1[] = {
    f64_1_0,
    f64_1_1,
};
extern blas_tile f64_2_0 __asm__("f64_packed.cortex-a75") __attribute__((visibility("hidden")));
extern blas_tile f64_2_1 __asm__("f64_strided.cortex-a75") __attribute__((visibility("hidden")));
static blas_tile *const f64_tiles_2[] = {
    f64_2_0,
    f64_2_1,
};
static void *const product_versions[2][4] = {
    {0, (void *)f32_tiles_0, (void *)f32_tiles_1, (void *)f32_tiles_2},
    {0, (void *)f64_tiles_0, (void *)f64_tiles_1, (void *)f64_tiles_2},
};
static uint64_t product_runs[2][4];
static struct mavcg_function product_functions[] = {
    {"sgemm", product_versions[0], product_runs[0], 0},
    {"dgemm", product_versions[1], product_runs[1], 0},
};
