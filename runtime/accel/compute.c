/* Computes the conv, pool and misc instructions: sums without rounding, a shift, saturation. */
#include <stdlib.h>

#include "core.h"

enum rounding { HALF_UP, HALF_AWAY, FLOOR };
enum { SLOPE_BITS = 8, MOST_SHIFT = 62 };

/* Parameters of the conversion of sums to int8: the fields lo, hi, leaky and slope of an instruction. */
struct finish {
    int64_t lo, hi, leaky, slope;
    enum rounding rounding;
};

/* Compute sum * 2^-shift, rounded. */
static int64_t shift_round(int64_t sum, int64_t shift, enum rounding rounding) {
    if (shift <= 0) return -shift >= 64 ? 0 : (int64_t)((uint64_t)sum << -shift);
    int64_t right = shift < MOST_SHIFT ? shift : MOST_SHIFT, half = (int64_t)1 << (right - 1);
    switch (rounding) {
    case HALF_UP: return (sum + half) >> right;
    case HALF_AWAY: return sum < 0 ? -((-sum + half) >> right) : (sum + half) >> right;
    default: return sum >> right;
    }
}

static int8_t finished(const struct finish *finish, int64_t sum, int64_t shift) {
    int64_t value = finish->leaky && sum < 0 ? shift_round(sum * finish->slope, shift + SLOPE_BITS, finish->rounding)
                                             : shift_round(sum, shift, finish->rounding);
    return (int8_t)(value < finish->lo ? finish->lo : value > finish->hi ? finish->hi : value);
}

static struct finish finish_of(const struct memories *memories, const int64_t *lo) {
    return (struct finish){lo[0], lo[1], lo[2], lo[3], (enum rounding)memories->sizes.rounding};
}

/* Make a tile from the three address fields of an instruction. */
static struct tile tile_of(const int64_t *address, int64_t rows, int64_t columns, int64_t channels) {
    return (struct tile){address[0], address[1], address[2], rows, columns, channels};
}

/* Copy a tile of feature memory into a new dense array. Returns NULL on failure, with *why set. */
static int8_t *taken(const struct memories *memories, const struct tile *tile, const char **why) {
    *why = "a tile ends beyond feature memory";
    if (!tile_fits(memories, tile)) return NULL;
    int8_t *dense = malloc((size_t)(tile->rows * tile->columns * tile->channels));
    *why = dense ? read_tile(memories, tile, dense) : "no memory for a tile";
    if (!*why) return dense;
    free(dense);
    return NULL;
}

/* Allocate a dense array for a result tile. Returns NULL on failure, with *why set. */
static int8_t *room_for(const struct memories *memories, const struct tile *tile, const char **why) {
    *why = "a tile ends beyond feature memory";
    if (!tile_fits(memories, tile)) return NULL;
    int8_t *dense = malloc((size_t)(tile->rows * tile->columns * tile->channels));
    *why = dense ? NULL : "no memory for a tile";
    return dense;
}

/* The windows of a convolution or pool over an input tile. `window` points at the first of the fields kernel_rows ..
 * pad_left, which have the same order in conv and pool. */
struct windows {
    const int64_t *window;
    int64_t rows, columns, channels;
    bool transposed;
    const int8_t *x;
};
enum { KERNEL_ROWS, KERNEL_COLUMNS, STRIDE_ROWS, STRIDE_COLUMNS, DILATION_ROWS, DILATION_COLUMNS, PAD_TOP, PAD_LEFT };

/* Return the input row (or column) that an output row meets at a position of the kernel; -1 if it lies outside of the
 * input. */
static int64_t source(const int64_t *window, bool transposed, int axis, int64_t out, int64_t position, int64_t length) {
    int64_t stride = window[STRIDE_ROWS + axis], offset = position * window[DILATION_ROWS + axis];
    int64_t pad = window[PAD_TOP + axis], at;
    if (transposed) {
        at = out + pad - offset;
        if (at < 0 || at % stride) return -1;
        at /= stride;
    } else {
        at = out * stride - pad + offset;
    }
    return at >= 0 && at < length ? at : -1;
}

/* Store, for each position of the kernel, the input pixel that an output pixel meets; NULL outside of the tile. */
static void meet(const struct windows *windows, int64_t row, int64_t column, const int8_t **pixels) {
    const int64_t *window = windows->window;
    for (int64_t i = 0; i < window[KERNEL_ROWS]; i++) {
        int64_t y = source(window, windows->transposed, 0, row, i, windows->rows);
        for (int64_t j = 0; j < window[KERNEL_COLUMNS]; j++, pixels++) {
            int64_t x = y < 0 ? -1 : source(window, windows->transposed, 1, column, j, windows->columns);
            *pixels = x < 0 ? NULL : windows->x + (y * windows->columns + x) * windows->channels;
        }
    }
}

static uint32_t dot(const int8_t *a, const int8_t *b, int64_t length) {
    uint32_t sum = 0; /* wraps modulo 2^32 */
    for (int64_t i = 0; i < length; i++) sum += (uint32_t)((int32_t)a[i] * b[i]);
    return sum;
}

/* The arrays that a convolution allocates. */
struct convolution {
    int8_t *x, *weights, *shifts, *result;
    int32_t *bias;
    uint32_t *sums;
    const int8_t **pixels;
};

static void add_products(const struct instruction *one, const struct windows *windows, const struct convolution *c) {
    const int64_t *v = one->values;
    bool depthwise = one->form->kind == CONV_DEPTHWISE;
    int64_t positions = v[CONV_DENSE_KERNEL_ROWS] * v[CONV_DENSE_KERNEL_COLUMNS], channels = v[CONV_DENSE_CHANNELS];
    uint32_t *sums = c->sums;
    for (int64_t row = 0; row < v[CONV_DENSE_OUT_ROWS]; row++)
        for (int64_t column = 0; column < v[CONV_DENSE_OUT_COLUMNS]; column++, sums += v[CONV_DENSE_OUT_CHANNELS]) {
            meet(windows, row, column, c->pixels);
            for (int64_t o = 0; o < v[CONV_DENSE_OUT_CHANNELS]; o++)
                for (int64_t t = 0; t < positions; t++) {
                    const int8_t *pixel = c->pixels[t];
                    if (!pixel) continue;
                    sums[o] += depthwise ? (uint32_t)((int32_t)pixel[o] * c->weights[o * positions + t])
                                         : dot(pixel, c->weights + (o * positions + t) * channels, channels);
                }
        }
}

static const char *end_convolution(struct memories *memories, const struct instruction *one, const struct tile *to,
                                   const struct convolution *c) {
    const int64_t *v = one->values;
    int64_t channels = v[CONV_DENSE_OUT_CHANNELS], pixels = v[CONV_DENSE_OUT_ROWS] * v[CONV_DENSE_OUT_COLUMNS];
    if (v[CONV_DENSE_PARTIAL]) return write_sums(memories, v[CONV_DENSE_SUMS], pixels, channels, c->sums);
    struct finish finish = finish_of(memories, v + CONV_DENSE_LO);
    for (int64_t i = 0; i < pixels * channels; i++)
        c->result[i] = finished(&finish, (int32_t)c->sums[i], c->shifts[i % channels]);
    return write_tile(memories, to, c->result);
}

static const char *convolve_with(struct memories *memories, const struct instruction *one, struct convolution *c) {
    const int64_t *v = one->values;
    int64_t channels = v[CONV_DENSE_OUT_CHANNELS], pixels = v[CONV_DENSE_OUT_ROWS] * v[CONV_DENSE_OUT_COLUMNS];
    int64_t positions = v[CONV_DENSE_KERNEL_ROWS] * v[CONV_DENSE_KERNEL_COLUMNS];
    struct tile from = tile_of(v + CONV_DENSE_FROM, v[CONV_DENSE_ROWS], v[CONV_DENSE_COLUMNS], v[CONV_DENSE_CHANNELS]);
    struct tile to = tile_of(v + CONV_DENSE_TO, v[CONV_DENSE_OUT_ROWS], v[CONV_DENSE_OUT_COLUMNS], channels);
    const char *why = NULL;
    if (v[CONV_DENSE_PARTIAL] || v[CONV_DENSE_ACCUMULATE])
        why = check_sums(memories, v[CONV_DENSE_SUMS], pixels, channels);
    if (!why && !v[CONV_DENSE_PARTIAL] && !tile_fits(memories, &to)) why = "a tile ends beyond feature memory";
    if (why) return why;
    c->x = taken(memories, &from, &why);
    if (!c->x) return why;
    bool depthwise = one->form->kind == CONV_DEPTHWISE;
    c->weights = malloc((size_t)(channels * positions * (depthwise ? 1 : v[CONV_DENSE_CHANNELS])));
    c->shifts = malloc((size_t)channels);
    c->bias = malloc((size_t)channels * sizeof *c->bias);
    c->sums = calloc((size_t)(pixels * channels), sizeof *c->sums);
    c->result = malloc((size_t)(pixels * channels));
    c->pixels = calloc((size_t)positions, sizeof *c->pixels);
    if (!c->weights || !c->shifts || !c->bias || !c->sums || !c->result || !c->pixels)
        return "no memory for its operands";
    why = read_parameters(memories, one, c->bias, c->shifts, c->weights);
    if (why) return why;
    for (int64_t i = 0; i < pixels * channels; i++) c->sums[i] = (uint32_t)c->bias[i % channels];
    if (v[CONV_DENSE_ACCUMULATE]) why = read_sums(memories, v[CONV_DENSE_SUMS], pixels, channels, c->sums);
    if (why) return why;
    struct windows windows = {v + CONV_DENSE_KERNEL_ROWS,         from.rows, from.columns, from.channels,
                              one->form->kind == CONV_TRANSPOSED, c->x};
    add_products(one, &windows, c);
    return end_convolution(memories, one, &to, c);
}

static const char *convolve(struct memories *memories, const struct instruction *one) {
    struct convolution c = {0};
    const char *why = convolve_with(memories, one, &c);
    free(c.x);
    free(c.weights);
    free(c.shifts);
    free(c.result);
    free(c.bias);
    free(c.sums);
    free(c.pixels);
    return why;
}

static void pool_windows(const struct instruction *one, const struct windows *windows, const struct finish *finish,
                         const int8_t **pixels, int8_t *result) {
    const int64_t *v = one->values;
    bool greatest = one->form->kind == POOL_MAX;
    int64_t positions = v[POOL_MAX_KERNEL_ROWS] * v[POOL_MAX_KERNEL_COLUMNS], channels = v[POOL_MAX_CHANNELS];
    int64_t multiplier = greatest ? 1 : v[POOL_AVERAGE_MULTIPLIER];
    int64_t shift = greatest ? v[POOL_MAX_SHIFT] : v[POOL_AVERAGE_SHIFT];
    for (int64_t row = 0; row < v[POOL_MAX_OUT_ROWS]; row++)
        for (int64_t column = 0; column < v[POOL_MAX_OUT_COLUMNS]; column++, result += channels) {
            meet(windows, row, column, pixels);
            for (int64_t c = 0; c < channels; c++) {
                int64_t value = greatest ? INT8_MIN : 0;
                for (int64_t t = 0; t < positions; t++) {
                    if (!pixels[t]) continue;
                    int element = pixels[t][c]; /* NOLINT(bugprone-signed-char-misuse): a number */
                    if (!greatest) value += element;
                    else if (element > value) value = element;
                }
                result[c] = finished(finish, value * multiplier, shift);
            }
        }
}

static const char *pool(struct memories *memories, const struct instruction *one) {
    const int64_t *v = one->values;
    int64_t channels = v[POOL_MAX_CHANNELS];
    struct tile from = tile_of(v + POOL_MAX_FROM, v[POOL_MAX_ROWS], v[POOL_MAX_COLUMNS], channels);
    struct tile to = tile_of(v + POOL_MAX_TO, v[POOL_MAX_OUT_ROWS], v[POOL_MAX_OUT_COLUMNS], channels);
    const char *why;
    int8_t *result = room_for(memories, &to, &why), *x = result ? taken(memories, &from, &why) : NULL;
    size_t positions = (size_t)(v[POOL_MAX_KERNEL_ROWS] * v[POOL_MAX_KERNEL_COLUMNS]);
    const int8_t **pixels = x ? calloc(positions, sizeof *pixels) : NULL;
    if (x && !pixels) why = "no memory for its operands";
    if (pixels) {
        struct windows windows = {v + POOL_MAX_KERNEL_ROWS, from.rows, from.columns, channels, false, x};
        struct finish finish = finish_of(memories,
                                         v + (one->form->kind == POOL_MAX ? (int)POOL_MAX_LO : (int)POOL_AVERAGE_LO));
        pool_windows(one, &windows, &finish, pixels, result);
        why = write_tile(memories, &to, result);
    }
    free(pixels);
    free(x);
    free(result);
    return why;
}

static int64_t combined(int64_t op, int64_t a, int64_t b) {
    switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return a > b ? a : b;
    case 4: return a < b ? a : b;
    default: return a;
    }
}

static const char *eltwise(struct memories *memories, const struct instruction *one) {
    const int64_t *v = one->values;
    int64_t rows = v[MISC_ELTWISE_ROWS], columns = v[MISC_ELTWISE_COLUMNS], channels = v[MISC_ELTWISE_CHANNELS];
    struct tile from = tile_of(v + MISC_ELTWISE_FROM, rows, columns, channels);
    struct tile second = v[MISC_ELTWISE_OP] == OP_COPY ? from
                                                       : tile_of(v + MISC_ELTWISE_SECOND, rows, columns, channels);
    struct tile to = tile_of(v + MISC_ELTWISE_TO, rows, columns, channels);
    const char *why;
    int8_t *a = taken(memories, &from, &why), *b = a ? taken(memories, &second, &why) : NULL;
    int8_t *result = b ? room_for(memories, &to, &why) : NULL;
    if (result) {
        struct finish finish = finish_of(memories, v + MISC_ELTWISE_LO);
        int64_t left = (int64_t)1 << v[MISC_ELTWISE_LEFT], second_left = (int64_t)1 << v[MISC_ELTWISE_SECOND_LEFT];
        for (int64_t i = 0; i < rows * columns * channels; i++)
            result[i] = finished(&finish, combined(v[MISC_ELTWISE_OP], a[i] * left, b[i] * second_left),
                                 v[MISC_ELTWISE_SHIFT]);
        why = write_tile(memories, &to, result);
    }
    free(a);
    free(b);
    free(result);
    return why;
}

static const char *upsample(struct memories *memories, const struct instruction *one) {
    const int64_t *v = one->values;
    int64_t rows = v[MISC_UPSAMPLE_OUT_ROWS], columns = v[MISC_UPSAMPLE_OUT_COLUMNS],
            channels = v[MISC_UPSAMPLE_CHANNELS];
    int64_t factor_rows = v[MISC_UPSAMPLE_FACTOR_ROWS], factor_columns = v[MISC_UPSAMPLE_FACTOR_COLUMNS];
    int64_t phase_row = v[MISC_UPSAMPLE_PHASE_ROW], phase_column = v[MISC_UPSAMPLE_PHASE_COLUMN];
    struct tile from = tile_of(v + MISC_UPSAMPLE_FROM, blocks(phase_row + rows, factor_rows),
                               blocks(phase_column + columns, factor_columns), channels);
    struct tile to = tile_of(v + MISC_UPSAMPLE_TO, rows, columns, channels);
    const char *why;
    int8_t *x = taken(memories, &from, &why), *result = x ? room_for(memories, &to, &why) : NULL;
    if (result) {
        struct finish finish = finish_of(memories, v + MISC_UPSAMPLE_LO);
        for (int64_t i = 0; i < rows * columns * channels; i++) {
            int64_t pixel = i / channels, y = (phase_row + pixel / columns) / factor_rows;
            int64_t at = (y * from.columns + (phase_column + pixel % columns) / factor_columns) * channels +
                         i % channels;
            result[i] = finished(&finish, x[at], v[MISC_UPSAMPLE_SHIFT]);
        }
        why = write_tile(memories, &to, result);
    }
    free(x);
    free(result);
    return why;
}

static const char *reorganise(struct memories *memories, const struct instruction *one) {
    const int64_t *v = one->values;
    int64_t rows = v[MISC_REORGANISE_OUT_ROWS], columns = v[MISC_REORGANISE_OUT_COLUMNS];
    int64_t factor_rows = v[MISC_REORGANISE_FACTOR_ROWS], factor_columns = v[MISC_REORGANISE_FACTOR_COLUMNS];
    int64_t channels = v[MISC_REORGANISE_CHANNELS], made = channels * factor_rows * factor_columns;
    struct tile from = tile_of(v + MISC_REORGANISE_FROM, rows * factor_rows, columns * factor_columns, channels);
    struct tile to = tile_of(v + MISC_REORGANISE_TO, rows, columns, made);
    const char *why;
    int8_t *x = taken(memories, &from, &why), *result = x ? room_for(memories, &to, &why) : NULL;
    if (result) {
        struct finish finish = finish_of(memories, v + MISC_REORGANISE_LO);
        for (int64_t i = 0; i < rows * columns * made; i++) {
            int64_t pixel = i / made, position = i % made / channels;
            int64_t y = pixel / columns * factor_rows + position / factor_columns;
            int64_t at = (y * from.columns + pixel % columns * factor_columns + position % factor_columns) * channels;
            result[i] = finished(&finish, x[at + i % channels], v[MISC_REORGANISE_SHIFT]);
        }
        why = write_tile(memories, &to, result);
    }
    free(x);
    free(result);
    return why;
}

const char *compute(struct memories *memories, const struct instruction *one) {
    switch (one->form->kind) {
    case CONV_DENSE:
    case CONV_DEPTHWISE:
    case CONV_TRANSPOSED: return convolve(memories, one);
    case POOL_MAX:
    case POOL_AVERAGE: return pool(memories, one);
    case MISC_ELTWISE: return eltwise(memories, one);
    case MISC_UPSAMPLE: return upsample(memories, one);
    case MISC_REORGANISE: return reorganise(memories, one);
    default: return NULL;
    }
}
