/* Subgraphs of a library. Made by mavcg. */
#define LIBRARY_NAME "libsample.so"
#define PARTS 1
#define MAX_INPUTS 1
#define MAX_OUTPUTS 1
extern const mavcg_model_table part_table_0 __asm__("mavcg_part_sample") __attribute__((visibility("hidden")));
static const struct drop_in_part drop_in_parts[] = {
    {"sample", "0123456789abcdef", &part_table_0},
};
