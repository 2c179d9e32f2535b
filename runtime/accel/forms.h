/* Layouts of the instructions. Made by `python -m mavcg.accelerators.isa.c_forms`. */
/* clang-format off */
#ifndef MAVCG_ACCEL_FORMS_H
#define MAVCG_ACCEL_FORMS_H 1

#include <stdbool.h>
#include <stdint.h>

/* A field: the word that it is in (the header is word 0), its lowest bit there, and its smallest value. */
struct field {
    const char *name;
    uint8_t word, bit, bits;
    bool is_signed;
    int64_t least;
};

enum form_kind { LOAD_MAP, LOAD_PARAMETERS, SAVE_MAP, CONV_DENSE, CONV_DEPTHWISE, CONV_TRANSPOSED, POOL_MAX, POOL_AVERAGE, MISC_START, MISC_END, MISC_ELTWISE, MISC_UPSAMPLE, MISC_REORGANISE };
enum { ISA_VERSION = 1, FORM_COUNT = 13, MOST_FIELDS = 28 };

struct form {
    const char *name;
    enum form_kind kind;
    uint8_t opcode, mode, words, field_count;
    const struct field *fields;
};

enum { LOAD_MAP_DDR, LOAD_MAP_DDR_PIXEL, LOAD_MAP_DDR_ROW, LOAD_MAP_ROWS, LOAD_MAP_COLUMNS, LOAD_MAP_CHANNELS, LOAD_MAP_TO, LOAD_MAP_TO_ROW, LOAD_MAP_TO_BLOCK };
static const struct field load_map_fields[] = {
    {"ddr", 1, 0, 32, false, 0},
    {"ddr_pixel", 2, 0, 24, false, 1},
    {"ddr_row", 3, 0, 32, false, 1},
    {"rows", 4, 0, 20, false, 1},
    {"columns", 5, 0, 20, false, 1},
    {"channels", 6, 0, 20, false, 1},
    {"to", 7, 0, 24, false, 0},
    {"to_row", 8, 0, 24, false, 1},
    {"to_block", 9, 0, 24, false, 1},
};

enum { LOAD_PARAMETERS_DDR, LOAD_PARAMETERS_WORDS, LOAD_PARAMETERS_TO };
static const struct field load_parameters_fields[] = {
    {"ddr", 1, 0, 32, false, 0},
    {"words", 2, 0, 24, false, 1},
    {"to", 3, 0, 24, false, 0},
};

enum { SAVE_MAP_DDR, SAVE_MAP_DDR_PIXEL, SAVE_MAP_DDR_ROW, SAVE_MAP_ROWS, SAVE_MAP_COLUMNS, SAVE_MAP_CHANNELS, SAVE_MAP_FROM, SAVE_MAP_FROM_ROW, SAVE_MAP_FROM_BLOCK };
static const struct field save_map_fields[] = {
    {"ddr", 1, 0, 32, false, 0},
    {"ddr_pixel", 2, 0, 24, false, 1},
    {"ddr_row", 3, 0, 32, false, 1},
    {"rows", 4, 0, 20, false, 1},
    {"columns", 5, 0, 20, false, 1},
    {"channels", 6, 0, 20, false, 1},
    {"from", 7, 0, 24, false, 0},
    {"from_row", 8, 0, 24, false, 1},
    {"from_block", 9, 0, 24, false, 1},
};

enum { CONV_DENSE_FROM, CONV_DENSE_FROM_ROW, CONV_DENSE_FROM_BLOCK, CONV_DENSE_ROWS, CONV_DENSE_COLUMNS, CONV_DENSE_CHANNELS, CONV_DENSE_TO, CONV_DENSE_TO_ROW, CONV_DENSE_TO_BLOCK, CONV_DENSE_OUT_ROWS, CONV_DENSE_OUT_COLUMNS, CONV_DENSE_OUT_CHANNELS, CONV_DENSE_KERNEL_ROWS, CONV_DENSE_KERNEL_COLUMNS, CONV_DENSE_STRIDE_ROWS, CONV_DENSE_STRIDE_COLUMNS, CONV_DENSE_DILATION_ROWS, CONV_DENSE_DILATION_COLUMNS, CONV_DENSE_PAD_TOP, CONV_DENSE_PAD_LEFT, CONV_DENSE_PARAMETERS, CONV_DENSE_LO, CONV_DENSE_HI, CONV_DENSE_LEAKY, CONV_DENSE_SLOPE, CONV_DENSE_ACCUMULATE, CONV_DENSE_PARTIAL, CONV_DENSE_SUMS };
static const struct field conv_dense_fields[] = {
    {"from", 1, 0, 24, false, 0},
    {"from_row", 2, 0, 24, false, 1},
    {"from_block", 3, 0, 24, false, 1},
    {"rows", 4, 0, 20, false, 1},
    {"columns", 5, 0, 20, false, 1},
    {"channels", 6, 0, 20, false, 1},
    {"to", 7, 0, 24, false, 0},
    {"to_row", 8, 0, 24, false, 1},
    {"to_block", 9, 0, 24, false, 1},
    {"out_rows", 10, 0, 20, false, 1},
    {"out_columns", 11, 0, 20, false, 1},
    {"out_channels", 12, 0, 20, false, 1},
    {"kernel_rows", 12, 20, 10, false, 1},
    {"kernel_columns", 13, 0, 10, false, 1},
    {"stride_rows", 13, 10, 10, false, 1},
    {"stride_columns", 13, 20, 10, false, 1},
    {"dilation_rows", 14, 0, 10, false, 1},
    {"dilation_columns", 14, 10, 10, false, 1},
    {"pad_top", 15, 0, 20, true, -524288},
    {"pad_left", 16, 0, 20, true, -524288},
    {"parameters", 17, 0, 24, false, 0},
    {"lo", 17, 24, 8, true, -128},
    {"hi", 18, 0, 8, true, -128},
    {"leaky", 18, 8, 1, false, 0},
    {"slope", 18, 9, 9, false, 0},
    {"accumulate", 18, 18, 1, false, 0},
    {"partial", 18, 19, 1, false, 0},
    {"sums", 19, 0, 24, false, 0},
};

enum { CONV_DEPTHWISE_FROM, CONV_DEPTHWISE_FROM_ROW, CONV_DEPTHWISE_FROM_BLOCK, CONV_DEPTHWISE_ROWS, CONV_DEPTHWISE_COLUMNS, CONV_DEPTHWISE_CHANNELS, CONV_DEPTHWISE_TO, CONV_DEPTHWISE_TO_ROW, CONV_DEPTHWISE_TO_BLOCK, CONV_DEPTHWISE_OUT_ROWS, CONV_DEPTHWISE_OUT_COLUMNS, CONV_DEPTHWISE_OUT_CHANNELS, CONV_DEPTHWISE_KERNEL_ROWS, CONV_DEPTHWISE_KERNEL_COLUMNS, CONV_DEPTHWISE_STRIDE_ROWS, CONV_DEPTHWISE_STRIDE_COLUMNS, CONV_DEPTHWISE_DILATION_ROWS, CONV_DEPTHWISE_DILATION_COLUMNS, CONV_DEPTHWISE_PAD_TOP, CONV_DEPTHWISE_PAD_LEFT, CONV_DEPTHWISE_PARAMETERS, CONV_DEPTHWISE_LO, CONV_DEPTHWISE_HI, CONV_DEPTHWISE_LEAKY, CONV_DEPTHWISE_SLOPE, CONV_DEPTHWISE_ACCUMULATE, CONV_DEPTHWISE_PARTIAL, CONV_DEPTHWISE_SUMS };
static const struct field conv_depthwise_fields[] = {
    {"from", 1, 0, 24, false, 0},
    {"from_row", 2, 0, 24, false, 1},
    {"from_block", 3, 0, 24, false, 1},
    {"rows", 4, 0, 20, false, 1},
    {"columns", 5, 0, 20, false, 1},
    {"channels", 6, 0, 20, false, 1},
    {"to", 7, 0, 24, false, 0},
    {"to_row", 8, 0, 24, false, 1},
    {"to_block", 9, 0, 24, false, 1},
    {"out_rows", 10, 0, 20, false, 1},
    {"out_columns", 11, 0, 20, false, 1},
    {"out_channels", 12, 0, 20, false, 1},
    {"kernel_rows", 12, 20, 10, false, 1},
    {"kernel_columns", 13, 0, 10, false, 1},
    {"stride_rows", 13, 10, 10, false, 1},
    {"stride_columns", 13, 20, 10, false, 1},
    {"dilation_rows", 14, 0, 10, false, 1},
    {"dilation_columns", 14, 10, 10, false, 1},
    {"pad_top", 15, 0, 20, true, -524288},
    {"pad_left", 16, 0, 20, true, -524288},
    {"parameters", 17, 0, 24, false, 0},
    {"lo", 17, 24, 8, true, -128},
    {"hi", 18, 0, 8, true, -128},
    {"leaky", 18, 8, 1, false, 0},
    {"slope", 18, 9, 9, false, 0},
    {"accumulate", 18, 18, 1, false, 0},
    {"partial", 18, 19, 1, false, 0},
    {"sums", 19, 0, 24, false, 0},
};

enum { CONV_TRANSPOSED_FROM, CONV_TRANSPOSED_FROM_ROW, CONV_TRANSPOSED_FROM_BLOCK, CONV_TRANSPOSED_ROWS, CONV_TRANSPOSED_COLUMNS, CONV_TRANSPOSED_CHANNELS, CONV_TRANSPOSED_TO, CONV_TRANSPOSED_TO_ROW, CONV_TRANSPOSED_TO_BLOCK, CONV_TRANSPOSED_OUT_ROWS, CONV_TRANSPOSED_OUT_COLUMNS, CONV_TRANSPOSED_OUT_CHANNELS, CONV_TRANSPOSED_KERNEL_ROWS, CONV_TRANSPOSED_KERNEL_COLUMNS, CONV_TRANSPOSED_STRIDE_ROWS, CONV_TRANSPOSED_STRIDE_COLUMNS, CONV_TRANSPOSED_DILATION_ROWS, CONV_TRANSPOSED_DILATION_COLUMNS, CONV_TRANSPOSED_PAD_TOP, CONV_TRANSPOSED_PAD_LEFT, CONV_TRANSPOSED_PARAMETERS, CONV_TRANSPOSED_LO, CONV_TRANSPOSED_HI, CONV_TRANSPOSED_LEAKY, CONV_TRANSPOSED_SLOPE, CONV_TRANSPOSED_ACCUMULATE, CONV_TRANSPOSED_PARTIAL, CONV_TRANSPOSED_SUMS };
static const struct field conv_transposed_fields[] = {
    {"from", 1, 0, 24, false, 0},
    {"from_row", 2, 0, 24, false, 1},
    {"from_block", 3, 0, 24, false, 1},
    {"rows", 4, 0, 20, false, 1},
    {"columns", 5, 0, 20, false, 1},
    {"channels", 6, 0, 20, false, 1},
    {"to", 7, 0, 24, false, 0},
    {"to_row", 8, 0, 24, false, 1},
    {"to_block", 9, 0, 24, false, 1},
    {"out_rows", 10, 0, 20, false, 1},
    {"out_columns", 11, 0, 20, false, 1},
    {"out_channels", 12, 0, 20, false, 1},
    {"kernel_rows", 12, 20, 10, false, 1},
    {"kernel_columns", 13, 0, 10, false, 1},
    {"stride_rows", 13, 10, 10, false, 1},
    {"stride_columns", 13, 20, 10, false, 1},
    {"dilation_rows", 14, 0, 10, false, 1},
    {"dilation_columns", 14, 10, 10, false, 1},
    {"pad_top", 15, 0, 20, true, -524288},
    {"pad_left", 16, 0, 20, true, -524288},
    {"parameters", 17, 0, 24, false, 0},
    {"lo", 17, 24, 8, true, -128},
    {"hi", 18, 0, 8, true, -128},
    {"leaky", 18, 8, 1, false, 0},
    {"slope", 18, 9, 9, false, 0},
    {"accumulate", 18, 18, 1, false, 0},
    {"partial", 18, 19, 1, false, 0},
    {"sums", 19, 0, 24, false, 0},
};

enum { POOL_MAX_FROM, POOL_MAX_FROM_ROW, POOL_MAX_FROM_BLOCK, POOL_MAX_ROWS, POOL_MAX_COLUMNS, POOL_MAX_CHANNELS, POOL_MAX_TO, POOL_MAX_TO_ROW, POOL_MAX_TO_BLOCK, POOL_MAX_OUT_ROWS, POOL_MAX_OUT_COLUMNS, POOL_MAX_KERNEL_ROWS, POOL_MAX_KERNEL_COLUMNS, POOL_MAX_STRIDE_ROWS, POOL_MAX_STRIDE_COLUMNS, POOL_MAX_DILATION_ROWS, POOL_MAX_DILATION_COLUMNS, POOL_MAX_PAD_TOP, POOL_MAX_PAD_LEFT, POOL_MAX_SHIFT, POOL_MAX_LO, POOL_MAX_HI, POOL_MAX_LEAKY, POOL_MAX_SLOPE };
static const struct field pool_max_fields[] = {
    {"from", 1, 0, 24, false, 0},
    {"from_row", 2, 0, 24, false, 1},
    {"from_block", 3, 0, 24, false, 1},
    {"rows", 4, 0, 20, false, 1},
    {"columns", 5, 0, 20, false, 1},
    {"channels", 6, 0, 20, false, 1},
    {"to", 7, 0, 24, false, 0},
    {"to_row", 8, 0, 24, false, 1},
    {"to_block", 9, 0, 24, false, 1},
    {"out_rows", 10, 0, 20, false, 1},
    {"out_columns", 11, 0, 20, false, 1},
    {"kernel_rows", 11, 20, 10, false, 1},
    {"kernel_columns", 12, 0, 10, false, 1},
    {"stride_rows", 12, 10, 10, false, 1},
    {"stride_columns", 12, 20, 10, false, 1},
    {"dilation_rows", 13, 0, 10, false, 1},
    {"dilation_columns", 13, 10, 10, false, 1},
    {"pad_top", 14, 0, 20, true, -524288},
    {"pad_left", 15, 0, 20, true, -524288},
    {"shift", 15, 20, 7, true, -64},
    {"lo", 16, 0, 8, true, -128},
    {"hi", 16, 8, 8, true, -128},
    {"leaky", 16, 16, 1, false, 0},
    {"slope", 16, 17, 9, false, 0},
};

enum { POOL_AVERAGE_FROM, POOL_AVERAGE_FROM_ROW, POOL_AVERAGE_FROM_BLOCK, POOL_AVERAGE_ROWS, POOL_AVERAGE_COLUMNS, POOL_AVERAGE_CHANNELS, POOL_AVERAGE_TO, POOL_AVERAGE_TO_ROW, POOL_AVERAGE_TO_BLOCK, POOL_AVERAGE_OUT_ROWS, POOL_AVERAGE_OUT_COLUMNS, POOL_AVERAGE_KERNEL_ROWS, POOL_AVERAGE_KERNEL_COLUMNS, POOL_AVERAGE_STRIDE_ROWS, POOL_AVERAGE_STRIDE_COLUMNS, POOL_AVERAGE_DILATION_ROWS, POOL_AVERAGE_DILATION_COLUMNS, POOL_AVERAGE_PAD_TOP, POOL_AVERAGE_PAD_LEFT, POOL_AVERAGE_MULTIPLIER, POOL_AVERAGE_SHIFT, POOL_AVERAGE_LO, POOL_AVERAGE_HI, POOL_AVERAGE_LEAKY, POOL_AVERAGE_SLOPE };
static const struct field pool_average_fields[] = {
    {"from", 1, 0, 24, false, 0},
    {"from_row", 2, 0, 24, false, 1},
    {"from_block", 3, 0, 24, false, 1},
    {"rows", 4, 0, 20, false, 1},
    {"columns", 5, 0, 20, false, 1},
    {"channels", 6, 0, 20, false, 1},
    {"to", 7, 0, 24, false, 0},
    {"to_row", 8, 0, 24, false, 1},
    {"to_block", 9, 0, 24, false, 1},
    {"out_rows", 10, 0, 20, false, 1},
    {"out_columns", 11, 0, 20, false, 1},
    {"kernel_rows", 11, 20, 10, false, 1},
    {"kernel_columns", 12, 0, 10, false, 1},
    {"stride_rows", 12, 10, 10, false, 1},
    {"stride_columns", 12, 20, 10, false, 1},
    {"dilation_rows", 13, 0, 10, false, 1},
    {"dilation_columns", 13, 10, 10, false, 1},
    {"pad_top", 14, 0, 20, true, -524288},
    {"pad_left", 15, 0, 20, true, -524288},
    {"multiplier", 16, 0, 16, false, 0},
    {"shift", 16, 16, 7, true, -64},
    {"lo", 16, 23, 8, true, -128},
    {"hi", 17, 0, 8, true, -128},
    {"leaky", 17, 8, 1, false, 0},
    {"slope", 17, 9, 9, false, 0},
};

enum { MISC_START_VERSION };
static const struct field misc_start_fields[] = {
    {"version", 1, 0, 8, false, 1},
};

enum { MISC_ELTWISE_FROM, MISC_ELTWISE_FROM_ROW, MISC_ELTWISE_FROM_BLOCK, MISC_ELTWISE_SECOND, MISC_ELTWISE_SECOND_ROW, MISC_ELTWISE_SECOND_BLOCK, MISC_ELTWISE_TO, MISC_ELTWISE_TO_ROW, MISC_ELTWISE_TO_BLOCK, MISC_ELTWISE_ROWS, MISC_ELTWISE_COLUMNS, MISC_ELTWISE_CHANNELS, MISC_ELTWISE_OP, MISC_ELTWISE_LEFT, MISC_ELTWISE_SECOND_LEFT, MISC_ELTWISE_SHIFT, MISC_ELTWISE_LO, MISC_ELTWISE_HI, MISC_ELTWISE_LEAKY, MISC_ELTWISE_SLOPE };
static const struct field misc_eltwise_fields[] = {
    {"from", 1, 0, 24, false, 0},
    {"from_row", 2, 0, 24, false, 1},
    {"from_block", 3, 0, 24, false, 1},
    {"second", 4, 0, 24, false, 0},
    {"second_row", 5, 0, 24, false, 1},
    {"second_block", 6, 0, 24, false, 1},
    {"to", 7, 0, 24, false, 0},
    {"to_row", 8, 0, 24, false, 1},
    {"to_block", 9, 0, 24, false, 1},
    {"rows", 10, 0, 20, false, 1},
    {"columns", 11, 0, 20, false, 1},
    {"channels", 12, 0, 20, false, 1},
    {"op", 12, 20, 3, false, 0},
    {"left", 12, 23, 4, false, 0},
    {"second_left", 12, 27, 4, false, 0},
    {"shift", 13, 0, 7, true, -64},
    {"lo", 13, 7, 8, true, -128},
    {"hi", 13, 15, 8, true, -128},
    {"leaky", 13, 23, 1, false, 0},
    {"slope", 14, 0, 9, false, 0},
};

enum { MISC_UPSAMPLE_FROM, MISC_UPSAMPLE_FROM_ROW, MISC_UPSAMPLE_FROM_BLOCK, MISC_UPSAMPLE_TO, MISC_UPSAMPLE_TO_ROW, MISC_UPSAMPLE_TO_BLOCK, MISC_UPSAMPLE_OUT_ROWS, MISC_UPSAMPLE_OUT_COLUMNS, MISC_UPSAMPLE_CHANNELS, MISC_UPSAMPLE_FACTOR_ROWS, MISC_UPSAMPLE_FACTOR_COLUMNS, MISC_UPSAMPLE_PHASE_ROW, MISC_UPSAMPLE_PHASE_COLUMN, MISC_UPSAMPLE_SHIFT, MISC_UPSAMPLE_LO, MISC_UPSAMPLE_HI, MISC_UPSAMPLE_LEAKY, MISC_UPSAMPLE_SLOPE };
static const struct field misc_upsample_fields[] = {
    {"from", 1, 0, 24, false, 0},
    {"from_row", 2, 0, 24, false, 1},
    {"from_block", 3, 0, 24, false, 1},
    {"to", 4, 0, 24, false, 0},
    {"to_row", 5, 0, 24, false, 1},
    {"to_block", 6, 0, 24, false, 1},
    {"out_rows", 7, 0, 20, false, 1},
    {"out_columns", 8, 0, 20, false, 1},
    {"channels", 9, 0, 20, false, 1},
    {"factor_rows", 9, 20, 10, false, 1},
    {"factor_columns", 10, 0, 10, false, 1},
    {"phase_row", 10, 10, 10, false, 0},
    {"phase_column", 10, 20, 10, false, 0},
    {"shift", 11, 0, 7, true, -64},
    {"lo", 11, 7, 8, true, -128},
    {"hi", 11, 15, 8, true, -128},
    {"leaky", 11, 23, 1, false, 0},
    {"slope", 12, 0, 9, false, 0},
};

enum { MISC_REORGANISE_FROM, MISC_REORGANISE_FROM_ROW, MISC_REORGANISE_FROM_BLOCK, MISC_REORGANISE_TO, MISC_REORGANISE_TO_ROW, MISC_REORGANISE_TO_BLOCK, MISC_REORGANISE_OUT_ROWS, MISC_REORGANISE_OUT_COLUMNS, MISC_REORGANISE_CHANNELS, MISC_REORGANISE_FACTOR_ROWS, MISC_REORGANISE_FACTOR_COLUMNS, MISC_REORGANISE_SHIFT, MISC_REORGANISE_LO, MISC_REORGANISE_HI, MISC_REORGANISE_LEAKY, MISC_REORGANISE_SLOPE };
static const struct field misc_reorganise_fields[] = {
    {"from", 1, 0, 24, false, 0},
    {"from_row", 2, 0, 24, false, 1},
    {"from_block", 3, 0, 24, false, 1},
    {"to", 4, 0, 24, false, 0},
    {"to_row", 5, 0, 24, false, 1},
    {"to_block", 6, 0, 24, false, 1},
    {"out_rows", 7, 0, 20, false, 1},
    {"out_columns", 8, 0, 20, false, 1},
    {"channels", 9, 0, 20, false, 1},
    {"factor_rows", 9, 20, 10, false, 1},
    {"factor_columns", 10, 0, 10, false, 1},
    {"shift", 10, 10, 7, true, -64},
    {"lo", 10, 17, 8, true, -128},
    {"hi", 11, 0, 8, true, -128},
    {"leaky", 11, 8, 1, false, 0},
    {"slope", 11, 9, 9, false, 0},
};

static const struct form forms[FORM_COUNT] = {
    {"load.map", LOAD_MAP, 0, 0, 10, 9, load_map_fields},
    {"load.parameters", LOAD_PARAMETERS, 0, 1, 4, 3, load_parameters_fields},
    {"save.map", SAVE_MAP, 1, 0, 10, 9, save_map_fields},
    {"conv.dense", CONV_DENSE, 2, 0, 20, 28, conv_dense_fields},
    {"conv.depthwise", CONV_DEPTHWISE, 2, 1, 20, 28, conv_depthwise_fields},
    {"conv.transposed", CONV_TRANSPOSED, 2, 2, 20, 28, conv_transposed_fields},
    {"pool.max", POOL_MAX, 3, 0, 17, 24, pool_max_fields},
    {"pool.average", POOL_AVERAGE, 3, 1, 18, 25, pool_average_fields},
    {"misc.start", MISC_START, 4, 0, 2, 1, misc_start_fields},
    {"misc.end", MISC_END, 4, 1, 1, 0, 0},
    {"misc.eltwise", MISC_ELTWISE, 4, 2, 15, 20, misc_eltwise_fields},
    {"misc.upsample", MISC_UPSAMPLE, 4, 3, 13, 18, misc_upsample_fields},
    {"misc.reorganise", MISC_REORGANISE, 4, 4, 12, 16, misc_reorganise_fields},
};

#endif
