/* Model sample. Made by mavcg. */
#define MODEL_API "mavcg_model_sample"
#define MODEL_NAME "sample"
#define MAVCG_SET be73d3589db3a5ad
#define MAVCG_CONSTANTS mavcg_constants_sample
#define PAGED 1
#define INPUTS 1
#define OUTPUTS 1
#define STEPS 1
#define PHASES 1
#define OPERANDS 3
#define EXTERNAL_OPERANDS 2
#define DEFAULT_THREADS 1
#define LOOPS 0
#define VERSIONS 4
#define SPIN_US 50
#define STAGES 0
#define STATES 2
#define DIMENSIONS 1
#define KEPT 0
#define COUNTS 1
#define COUNTED 0
#define COUNTED_OUTPUTS 0
#define TENSOR_DIMS 4
#define ARENA_BYTES 4096ull
#define SCRATCH_BYTES 128ull
#define SCRATCH_STRIDE 128ull
#define CONSTANTS_BYTES 64ull
#define STATE_BYTES 768ull
#define SWAPPED_BYTES 256ull
#define MOVED_BYTES 0ull
#define SAVED_BYTES 528ull
#define STATES_DIGEST 8715734177928066833ull
static const uint32_t base_needs[MAVCG_NEED_WORDS] = {
    0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0
};
extern const char MAVCG_CONSTANTS[] __attribute__((visibility("hidden")));
extern engine_kernel version_0 __asm__("add_1.generic") __attribute__((visibility("hidden")));
extern engine_kernel version_1 __asm__("add_1.cortex-a55") __attribute__((visibility("hidden")));
extern engine_kernel version_2 __asm__("add_1.cortex-a75") __attribute__((visibility("hidden")));
static void *const kernel_versions[][4] = {
    {0, (void *)version_0, (void *)version_1, (void *)version_2},
};
static uint64_t kernel_runs[1][4];
static struct mavcg_function functions[] = {
    {"add_1", kernel_versions[0], kernel_runs[0], 0},
};
static const uint8_t element_bytes[] = {
    1, 4, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1,
};
static const int64_t inputs_dims[] = {
    4,
    16,
};
static const mavcg_tensor inputs_table[] = {
    {"x", 1, 2, inputs_dims + 0, 256},
};
static const int64_t outputs_dims[] = {
    4,
    16,
};
static const mavcg_tensor outputs_table[] = {
    {"y", 1, 2, outputs_dims + 0, 256},
};
static const int64_t states_dims[] = {
    4,
    16,
    4,
    16,
};
static const mavcg_tensor states_table[] = {
    {"h", 1, 2, states_dims + 0, 256},
    {"c", 1, 2, states_dims + 2, 256},
};
static const struct engine_state state_table[] = {
    {0, 256, -1, 1, 0, 0, 0},
    {256, 256, 0, 0, 0, 0, 2},
};
static const mavcg_dimension dimension_table[] = {
    {"rows", 1, 4},
};
static const int64_t dimension_steps[] = {
    1,
};
static const struct engine_length length_table[] = {
    {0, 0, 1, 0},
};
static const struct engine_kept kept_table[] = {
    {0},
};
static inline void add_counts(const int64_t *length, uint32_t *count) {
    count[0] = (uint32_t)(length[0]);
}
static const int32_t step_counts[] = {
    0,
};
static const int32_t loop_counts[] = {
    -1,
};
static const int32_t moving_counts[] = {
    -1,
};
static const int32_t inputs_counts[] = {
    0,
    -1,
};
static const int32_t outputs_counts[] = {
    0,
    -1,
};
static const int32_t states_counts[] = {
    -1,
    -1,
    -1,
    -1,
};
static const mavcg_step steps_table[] = {
    {"double", "Add", "add_1", 4, 1, 64},
};
static const struct engine_step run_table[] = {
    {0, 4, 1, 1, 0, 0, 1, 0},
};
static const struct engine_loop loop_table[] = {
    {0},
};
static const struct engine_moving moving_table[] = {
    {0},
};
static const uint16_t speed_table[][4] = {
    {256, 256, 256, 256},
    {100, 100, 100, 256},
};
static const struct engine_plan plan_table[] = {
    {2, {0x8, 0x0, 0x0, 0x0}}, /* cortex-a75 */
    {0},
};
static void *const core_ids[] = {
    (void *)0,
    (void *)1,
    (void *)2,
    (void *)3,
};
static uint64_t core_runs[4];
static const struct engine_operand operand_table[] = {
    {0, IN_INPUT, 0},
    {0, IN_CONSTANTS, 0},
    {0, IN_OUTPUT, 0},
};
static const uint32_t external_table[] = {
    0,
    2,
};
static const struct engine_ring_operand ring_table[] = {
    {0},
};
static const struct engine_pages page_table[] = {
    {0, PAGES_RELEASE, 0ull, 64ull},
    {0, PAGES_MAP, 0ull, 64ull},
    {0xFFFFFFFF, PAGES_RELEASE, 0, 0},
};
