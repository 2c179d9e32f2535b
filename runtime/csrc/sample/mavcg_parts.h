/* Subgraphs of a library. Made by mavcg. */
#define LIBRARY_NAME "libsample.so"
#define PARTS 1
#define OPS 1
#define MODEL_FILES 0
#define GRAPHS 1
#define MAX_INPUTS 1
#define MAX_OUTPUTS 1
extern const mavcg_model_table part_table_0 __asm__("mavcg_part_sample") __attribute__((visibility("hidden")));
static const int32_t part_nodes_0[] = {
    0,
};
static const int32_t part_inputs_0[] = {
    0,
};
static const int32_t part_outputs_0[] = {
    0,
};
static const char *const op_inputs_0[] = {
    NULL,
};
static const char *const op_outputs_0[] = {
    NULL,
};
static const struct drop_in_part drop_in_parts[] = {
    {"sample", "0123456789abcdef", &part_table_0, 0, 0, 0, part_nodes_0, part_inputs_0, part_outputs_0},
};
static const struct drop_in_op drop_in_ops[] = {
    {0, 1, op_inputs_0, op_outputs_0},
};
static const struct drop_in_model_file drop_in_model_files[] = {
    {"", 0, {0}},
};
static const struct drop_in_file drop_in_file = {0u, {14, 87, 81, 192, 38, 229, 67, 178, 232, 171, 46, 176, 96, 153, 218, 161, 209, 229, 223, 71, 119, 143, 119, 135, 250, 171, 69, 205, 241, 47, 227, 168}};
static const struct drop_in_graph drop_in_graphs[] = {
    {0u, -1, -1, 0},
};
