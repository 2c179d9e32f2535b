/* Declarations of a library that has one model in several sizes. */
#ifndef MAVCG_SIZES_API
#define MAVCG_SIZES_API 1

/* models: a table for each size, as mavcg_model_api() returns it; that function returns the first. Sizes have the same
 * inputs and outputs but for their shapes, share the packed weights, and each context has memory of its own. */
typedef struct mavcg_sizes_table {
    uint32_t api; /* MAVCG_SIZES_API */
    uint32_t count;
    const mavcg_model_table *const *models; /* [count] */
} mavcg_sizes_table;

#ifdef __cplusplus
extern "C" {
#endif
const mavcg_sizes_table *mavcg_sizes_api(void);

/* The size whose inputs have these shapes; NULL where the library was not built for them. dims: of each input, as many as
 * it has dimensions. */
const mavcg_model_table *mavcg_find_size(const int64_t *const *dims);
#ifdef __cplusplus
}
#endif

#endif
