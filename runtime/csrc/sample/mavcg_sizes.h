/* Sizes of a model. Made by mavcg. */
#define MODEL_API "mavcg_model_sample"
#define SIZES 1
extern const mavcg_model_table size_0 __asm__("mavcg_part_sample") __attribute__((visibility("hidden")));
static const mavcg_model_table *const size_tables[SIZES] = {
    &size_0,
};
