/* Register tiles of a BLAS library. Made by mavcg. */
#define MAVCG_SET be73d3589db3a5ad
#define VERSIONS 4
static const uint32_t base_needs[MAVCG_NEED_WORDS] = {
    0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0
};
static const struct blas_blocks blocks_table[] = {
    {4, 4, 4, 1, 4, 0, 4, 1, 256, 64, 512, 16, 0, 0}, /* f32 */
    {8, 8, 8, 1, 2, 0, 2, 1, 256, 64, 512, 16, 0, 0}, /* f64 */
    {4, 2, 4, 2, 4, 0, 4, 1, 512, 64, 512, 0, 0, 0}, /* bf16 */
    {4, 2, 4, 1, 4, 0, 4, 1, 256, 64, 512, 0, 0, 0}, /* f16 */
    {4, 2, 2, 1, 8, 0, 8, 1, 256, 64, 512, 0, 0, 0}, /* all_f16 */
};
#define TALL_COLUMNS 6
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
extern blas_tile product_f32_0_0 __asm__("f32_packed.generic") __attribute__((visibility("hidden")));
extern blas_tile product_f32_0_1 __asm__("f32_strided.generic") __attribute__((visibility("hidden")));
static blas_tile *const product_f32_0[] = {
    product_f32_0_0,
    product_f32_0_1,
};
extern blas_tile product_f32_1_0 __asm__("f32_packed.cortex-a55") __attribute__((visibility("hidden")));
extern blas_tile product_f32_1_1 __asm__("f32_strided.cortex-a55") __attribute__((visibility("hidden")));
static blas_tile *const product_f32_1[] = {
    product_f32_1_0,
    product_f32_1_1,
};
extern blas_tile product_f32_2_0 __asm__("f32_packed.cortex-a75") __attribute__((visibility("hidden")));
extern blas_tile product_f32_2_1 __asm__("f32_strided.cortex-a75") __attribute__((visibility("hidden")));
static blas_tile *const product_f32_2[] = {
    product_f32_2_0,
    product_f32_2_1,
};
extern blas_tile product_f64_0_0 __asm__("f64_packed.generic") __attribute__((visibility("hidden")));
extern blas_tile product_f64_0_1 __asm__("f64_strided.generic") __attribute__((visibility("hidden")));
static blas_tile *const product_f64_0[] = {
    product_f64_0_0,
    product_f64_0_1,
};
extern blas_tile product_f64_1_0 __asm__("f64_packed.cortex-a55") __attribute__((visibility("hidden")));
extern blas_tile product_f64_1_1 __asm__("f64_strided.cortex-a55") __attribute__((visibility("hidden")));
static blas_tile *const product_f64_1[] = {
    product_f64_1_0,
    product_f64_1_1,
};
extern blas_tile product_f64_2_0 __asm__("f64_packed.cortex-a75") __attribute__((visibility("hidden")));
extern blas_tile product_f64_2_1 __asm__("f64_strided.cortex-a75") __attribute__((visibility("hidden")));
static blas_tile *const product_f64_2[] = {
    product_f64_2_0,
    product_f64_2_1,
};
extern blas_tile product_bf16_0_0 __asm__("bf16_packed.generic") __attribute__((visibility("hidden")));
extern blas_tile product_bf16_0_1 __asm__("bf16_strided.generic") __attribute__((visibility("hidden")));
static blas_tile *const product_bf16_0[] = {
    product_bf16_0_0,
    product_bf16_0_1,
};
extern blas_tile product_bf16_1_0 __asm__("bf16_packed.cortex-a55") __attribute__((visibility("hidden")));
extern blas_tile product_bf16_1_1 __asm__("bf16_strided.cortex-a55") __attribute__((visibility("hidden")));
static blas_tile *const product_bf16_1[] = {
    product_bf16_1_0,
    product_bf16_1_1,
};
extern blas_tile product_bf16_2_0 __asm__("bf16_packed.cortex-a75") __attribute__((visibility("hidden")));
extern blas_tile product_bf16_2_1 __asm__("bf16_strided.cortex-a75") __attribute__((visibility("hidden")));
static blas_tile *const product_bf16_2[] = {
    product_bf16_2_0,
    product_bf16_2_1,
};
extern blas_tile product_f16_0_0 __asm__("f16_packed.generic") __attribute__((visibility("hidden")));
extern blas_tile product_f16_0_1 __asm__("f16_strided.generic") __attribute__((visibility("hidden")));
static blas_tile *const product_f16_0[] = {
    product_f16_0_0,
    product_f16_0_1,
};
extern blas_tile product_f16_1_0 __asm__("f16_packed.cortex-a55") __attribute__((visibility("hidden")));
extern blas_tile product_f16_1_1 __asm__("f16_strided.cortex-a55") __attribute__((visibility("hidden")));
static blas_tile *const product_f16_1[] = {
    product_f16_1_0,
    product_f16_1_1,
};
extern blas_tile product_f16_2_0 __asm__("f16_packed.cortex-a75") __attribute__((visibility("hidden")));
extern blas_tile product_f16_2_1 __asm__("f16_strided.cortex-a75") __attribute__((visibility("hidden")));
static blas_tile *const product_f16_2[] = {
    product_f16_2_0,
    product_f16_2_1,
};
extern blas_tile product_all_f16_0_0 __asm__("all_f16_packed.generic") __attribute__((visibility("hidden")));
extern blas_tile product_all_f16_0_1 __asm__("all_f16_strided.generic") __attribute__((visibility("hidden")));
static blas_tile *const product_all_f16_0[] = {
    product_all_f16_0_0,
    product_all_f16_0_1,
};
extern blas_tile product_all_f16_1_0 __asm__("all_f16_packed.cortex-a55") __attribute__((visibility("hidden")));
extern blas_tile product_all_f16_1_1 __asm__("all_f16_strided.cortex-a55") __attribute__((visibility("hidden")));
static blas_tile *const product_all_f16_1[] = {
    product_all_f16_1_0,
    product_all_f16_1_1,
};
extern blas_tile product_all_f16_2_0 __asm__("all_f16_packed.cortex-a75") __attribute__((visibility("hidden")));
extern blas_tile product_all_f16_2_1 __asm__("all_f16_strided.cortex-a75") __attribute__((visibility("hidden")));
static blas_tile *const product_all_f16_2[] = {
    product_all_f16_2_0,
    product_all_f16_2_1,
};
static void *const product_versions[5][4] = {
    {0, (void *)product_f32_0, (void *)product_f32_1, (void *)product_f32_2},
    {0, (void *)product_f64_0, (void *)product_f64_1, (void *)product_f64_2},
    {0, (void *)product_bf16_0, (void *)product_bf16_1, (void *)product_bf16_2},
    {0, (void *)product_f16_0, (void *)product_f16_1, (void *)product_f16_2},
    {0, (void *)product_all_f16_0, (void *)product_all_f16_1, (void *)product_all_f16_2},
};
static uint64_t product_runs[5][4];
static struct mavcg_function product_functions[] = {
    {"sgemm", product_versions[0], product_runs[0], 0},
    {"dgemm", product_versions[1], product_runs[1], 0},
    {"sbgemm", product_versions[2], product_runs[2], 0},
    {"shgemm", product_versions[3], product_runs[3], 0},
    {"hgemm", product_versions[4], product_runs[4], 0},
};
extern blas_vector_product vector_f32_0_0 __asm__("f32_packed.generic") __attribute__((visibility("hidden")));
extern blas_vector_product vector_f32_0_1 __asm__("f32_strided.generic") __attribute__((visibility("hidden")));
static blas_vector_product *const vector_f32_0[] = {
    vector_f32_0_0,
    vector_f32_0_1,
};
extern blas_vector_product vector_f32_1_0 __asm__("f32_packed.cortex-a55") __attribute__((visibility("hidden")));
extern blas_vector_product vector_f32_1_1 __asm__("f32_strided.cortex-a55") __attribute__((visibility("hidden")));
static blas_vector_product *const vector_f32_1[] = {
    vector_f32_1_0,
    vector_f32_1_1,
};
extern blas_vector_product vector_f32_2_0 __asm__("f32_packed.cortex-a75") __attribute__((visibility("hidden")));
extern blas_vector_product vector_f32_2_1 __asm__("f32_strided.cortex-a75") __attribute__((visibility("hidden")));
static blas_vector_product *const vector_f32_2[] = {
    vector_f32_2_0,
    vector_f32_2_1,
};
extern blas_vector_product vector_f64_0_0 __asm__("f64_packed.generic") __attribute__((visibility("hidden")));
extern blas_vector_product vector_f64_0_1 __asm__("f64_strided.generic") __attribute__((visibility("hidden")));
static blas_vector_product *const vector_f64_0[] = {
    vector_f64_0_0,
    vector_f64_0_1,
};
extern blas_vector_product vector_f64_1_0 __asm__("f64_packed.cortex-a55") __attribute__((visibility("hidden")));
extern blas_vector_product vector_f64_1_1 __asm__("f64_strided.cortex-a55") __attribute__((visibility("hidden")));
static blas_vector_product *const vector_f64_1[] = {
    vector_f64_1_0,
    vector_f64_1_1,
};
extern blas_vector_product vector_f64_2_0 __asm__("f64_packed.cortex-a75") __attribute__((visibility("hidden")));
extern blas_vector_product vector_f64_2_1 __asm__("f64_strided.cortex-a75") __attribute__((visibility("hidden")));
static blas_vector_product *const vector_f64_2[] = {
    vector_f64_2_0,
    vector_f64_2_1,
};
static void *const vector_versions[2][4] = {
    {0, (void *)vector_f32_0, (void *)vector_f32_1, (void *)vector_f32_2},
    {0, (void *)vector_f64_0, (void *)vector_f64_1, (void *)vector_f64_2},
};
static uint64_t vector_runs[2][4];
static struct mavcg_function vector_functions[] = {
    {"sgemv", vector_versions[0], vector_runs[0], 0},
    {"dgemv", vector_versions[1], vector_runs[1], 0},
};
extern blas_dot_products dot_f32_0_0 __asm__("f32_packed.generic") __attribute__((visibility("hidden")));
extern blas_dot_products dot_f32_0_1 __asm__("f32_strided.generic") __attribute__((visibility("hidden")));
static blas_dot_products *const dot_f32_0[] = {
    dot_f32_0_0,
    dot_f32_0_1,
};
extern blas_dot_products dot_f32_1_0 __asm__("f32_packed.cortex-a55") __attribute__((visibility("hidden")));
extern blas_dot_products dot_f32_1_1 __asm__("f32_strided.cortex-a55") __attribute__((visibility("hidden")));
static blas_dot_products *const dot_f32_1[] = {
    dot_f32_1_0,
    dot_f32_1_1,
};
extern blas_dot_products dot_f32_2_0 __asm__("f32_packed.cortex-a75") __attribute__((visibility("hidden")));
extern blas_dot_products dot_f32_2_1 __asm__("f32_strided.cortex-a75") __attribute__((visibility("hidden")));
static blas_dot_products *const dot_f32_2[] = {
    dot_f32_2_0,
    dot_f32_2_1,
};
extern blas_dot_products dot_f64_0_0 __asm__("f64_packed.generic") __attribute__((visibility("hidden")));
extern blas_dot_products dot_f64_0_1 __asm__("f64_strided.generic") __attribute__((visibility("hidden")));
static blas_dot_products *const dot_f64_0[] = {
    dot_f64_0_0,
    dot_f64_0_1,
};
extern blas_dot_products dot_f64_1_0 __asm__("f64_packed.cortex-a55") __attribute__((visibility("hidden")));
extern blas_dot_products dot_f64_1_1 __asm__("f64_strided.cortex-a55") __attribute__((visibility("hidden")));
static blas_dot_products *const dot_f64_1[] = {
    dot_f64_1_0,
    dot_f64_1_1,
};
extern blas_dot_products dot_f64_2_0 __asm__("f64_packed.cortex-a75") __attribute__((visibility("hidden")));
extern blas_dot_products dot_f64_2_1 __asm__("f64_strided.cortex-a75") __attribute__((visibility("hidden")));
static blas_dot_products *const dot_f64_2[] = {
    dot_f64_2_0,
    dot_f64_2_1,
};
static void *const dot_versions[2][4] = {
    {0, (void *)dot_f32_0, (void *)dot_f32_1, (void *)dot_f32_2},
    {0, (void *)dot_f64_0, (void *)dot_f64_1, (void *)dot_f64_2},
};
static uint64_t dot_runs[2][4];
static struct mavcg_function dot_functions[] = {
    {"sgemm", dot_versions[0], dot_runs[0], 0},
    {"dgemm", dot_versions[1], dot_runs[1], 0},
};
