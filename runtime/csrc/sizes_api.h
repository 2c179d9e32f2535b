/* Declarations of a library that has one model in several sizes. */
#ifndef MAVCG_SIZES_API
#define MAVCG_SIZES_API 1

/* The models of a library. models: one table for each size, as mavcg_model_api() returns it for the first size. All
 * sizes have the same inputs and outputs except for their shapes, and share the packed weights; each context has its
 * own memory. */
typedef struct mavcg_sizes_table {
    uint32_t api; /* MAVCG_SIZES_API */
    uint32_t count;
    const mavcg_model_table *const *models; /* [count] */
} mavcg_sizes_table;

#ifdef __cplusplus
extern "C" {
#endif
const mavcg_sizes_table *mavcg_sizes_api(void);

/* Return the size whose inputs have these shapes, or NULL if the library was not built for them. dims: for each input,
 * an array of its dimensions. */
const mavcg_model_table *mavcg_find_size(const int64_t *const *dims);
#ifdef __cplusplus
}
#endif

#endif
