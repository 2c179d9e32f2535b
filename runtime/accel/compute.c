/* Computes the conv, pool and misc instructions: sums without rounding, a shift, saturation. */
#include <string.h>

#include "execution.h"

enum rounding { HALF_UP, HALF_AWAY, FLOOR };
enum { SLOPE_BITS = 8, MOST_SHIFT = 62 };

/* Parameters of the conversion of sums to int8: the fields lo to zero of an instruction. */
struct finish {
    int64_t lo, hi, leaky, slope, zero;
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
    const int64_t beyond = INT32_MAX; /* far outside of int8, and the zero point cannot overflow */
    value = (value < -beyond ? -beyond : value > beyond ? beyond : value) + finish->zero;
    return (int8_t)(value < finish->lo ? finish->lo : value > finish->hi ? finish->hi : value);
}

static struct finish finish_of(const struct memories *memories, const int64_t *lo) {
    return (struct finish){lo[0], lo[1], lo[2], lo[3], lo[4], (enum rounding)memories->sizes.rounding};
}

/* Make a tile from the three address fields of an instruction. */
static struct tile tile_of(const char *field, const int64_t *address, int64_t rows, int64_t columns, int64_t channels) {
    return (struct tile){field, address[0], address[1], address[2], rows, columns, channels};
}

/* Return the dense array for a result tile; NULL, with a fault, if the tile does not fit. */
static int8_t *result_of(struct memories *memories, const struct tile *to) {
    return tile_fits(memories, to) ? array_of(memories, RESULT, to->rows * to->columns * to->channels) : NULL;
}

/* Write a result tile, which becomes the tile that the instruction computed. */
static bool end_tile(struct memories *memories, const struct tile *to, const int8_t *result) {
    memories->computed = (mavcg_accel_tile){result, to->rows, to->columns, to->channels};
    return write_tile(memories, to, result);
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

static uint32_t sum_of(const int8_t *a, int64_t length) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < length; i++) sum += (uint32_t)a[i]; /* NOLINT(bugprone-signed-char-misuse): a number */
    return sum;
}

/* Add the products of one output pixel. met: the input pixels that it meets, NULL outside of the tile, where all
 * elements are `outside`. sums: [out_channels]. */
static void add_products(const struct instruction *one, const struct parameters *parameters, const int8_t *const *met,
                         uint32_t *sums) {
    const int64_t *v = one->values;
    int64_t positions = v[CONV_DENSE_KERNEL_ROWS] * v[CONV_DENSE_KERNEL_COLUMNS];
    int64_t channels = v[CONV_DENSE_CHANNELS], out = v[CONV_DENSE_OUT_CHANNELS];
    bool depthwise = one->form->kind == CONV_DEPTHWISE;
    uint32_t outside = (uint32_t)v[CONV_DENSE_OUTSIDE];
    for (int64_t t = 0; t < positions; t++) {
        const int8_t *weights = parameters->weights + t * out * (depthwise ? 1 : channels);
        if (!met[t]) {
            for (int64_t o = 0; outside && o < out; o++)
                sums[o] += outside * (depthwise ? (uint32_t)weights[o] : sum_of(weights + o * channels, channels));
            continue;
        }
        for (int64_t o = 0; depthwise && o < out; o++) sums[o] += (uint32_t)((int32_t)met[t][o] * weights[o]);
        for (int64_t o = 0; !depthwise && o < out; o++) sums[o] += dot(met[t], weights + o * channels, channels);
    }
}

static bool convolve(struct memories *memories, const struct instruction *one) {
    const int64_t *v = one->values;
    bool partial = v[CONV_DENSE_PARTIAL];
    int64_t channels = v[CONV_DENSE_OUT_CHANNELS], pixels = v[CONV_DENSE_OUT_ROWS] * v[CONV_DENSE_OUT_COLUMNS];
    struct tile to = tile_of("to", v + CONV_DENSE_TO, v[CONV_DENSE_OUT_ROWS], v[CONV_DENSE_OUT_COLUMNS], channels);
    struct tile from = tile_of("from", v + CONV_DENSE_FROM, v[CONV_DENSE_ROWS], v[CONV_DENSE_COLUMNS],
                               v[CONV_DENSE_CHANNELS]);
    struct parameters parameters;
    if ((partial || v[CONV_DENSE_ACCUMULATE]) && !sums_fit(memories, v[CONV_DENSE_SUMS], pixels, channels))
        return false;
    int8_t *result = partial ? NULL : result_of(memories, &to);
    const int8_t *x = partial || result ? read_tile(memories, &from, FIRST) : NULL;
    if (!x || !read_parameters(memories, one, &parameters)) return false;
    uint32_t *sums = array_of(memories, SUMS, pixels * channels * SUM_BYTES);
    const int8_t **met = array_of(memories, PIXELS,
                                  v[CONV_DENSE_KERNEL_ROWS] * v[CONV_DENSE_KERNEL_COLUMNS] * (int64_t)sizeof *met);
    if (!sums || !met) return false;
    if (!v[CONV_DENSE_ACCUMULATE])
        for (int64_t i = 0; i < pixels; i++) memcpy(sums + i * channels, parameters.bias, (size_t)channels * SUM_BYTES);
    else if (!read_sums(memories, v[CONV_DENSE_SUMS], pixels, channels, sums)) return false;
    struct windows windows = {v + CONV_DENSE_KERNEL_ROWS,         from.rows, from.columns, from.channels,
                              one->form->kind == CONV_TRANSPOSED, x};
    for (int64_t i = 0; i < pixels; i++) {
        meet(&windows, i / to.columns, i % to.columns, met);
        add_products(one, &parameters, met, sums + i * channels);
    }
    if (partial) {
        write_sums(memories, v[CONV_DENSE_SUMS], pixels, channels, sums);
        return true;
    }
    struct finish finish = finish_of(memories, v + CONV_DENSE_LO);
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t o = 0; o < channels; o++)
            result[i * channels + o] = finished(
                &finish, (int64_t)(int32_t)sums[i * channels + o] * parameters.multipliers[o], parameters.shifts[o]);
    return end_tile(memories, &to, result);
}

static void pool_windows(const struct instruction *one, const struct windows *windows, const struct finish *finish,
                         const int8_t **met, int8_t *result) {
    const int64_t *v = one->values;
    bool greatest = one->form->kind == POOL_MAX;
    int64_t positions = v[POOL_MAX_KERNEL_ROWS] * v[POOL_MAX_KERNEL_COLUMNS], channels = v[POOL_MAX_CHANNELS];
    int64_t multiplier = greatest ? 1 : v[POOL_AVERAGE_MULTIPLIER];
    int64_t shift = greatest ? v[POOL_MAX_SHIFT] : v[POOL_AVERAGE_SHIFT];
    int64_t zero = greatest ? 0 : v[POOL_AVERAGE_FROM_ZERO];
    for (int64_t row = 0; row < v[POOL_MAX_OUT_ROWS]; row++)
        for (int64_t column = 0; column < v[POOL_MAX_OUT_COLUMNS]; column++, result += channels) {
            meet(windows, row, column, met);
            int64_t inside = 0; /* elements of a window in the tile, of which it may have few */
            for (int64_t t = 0; t < positions; t++)
                if (met[t]) met[inside++] = met[t];
            for (int64_t c = 0; c < channels; c++) {
                int64_t value = greatest ? INT8_MIN : 0;
                for (int64_t t = 0; t < inside; t++) {
                    int element = met[t][c]; /* NOLINT(bugprone-signed-char-misuse): a number */
                    if (!greatest) value += element - zero;
                    else if (element > value) value = element;
                }
                result[c] = finished(finish, value * multiplier, shift);
            }
        }
}

static bool pool(struct memories *memories, const struct instruction *one) {
    const int64_t *v = one->values;
    int64_t channels = v[POOL_MAX_CHANNELS];
    struct tile to = tile_of("to", v + POOL_MAX_TO, v[POOL_MAX_OUT_ROWS], v[POOL_MAX_OUT_COLUMNS], channels);
    struct tile from = tile_of("from", v + POOL_MAX_FROM, v[POOL_MAX_ROWS], v[POOL_MAX_COLUMNS], channels);
    int8_t *result = result_of(memories, &to);
    const int8_t *x = result ? read_tile(memories, &from, FIRST) : NULL;
    const int8_t **met = x ? array_of(memories, PIXELS,
                                      v[POOL_MAX_KERNEL_ROWS] * v[POOL_MAX_KERNEL_COLUMNS] * (int64_t)sizeof *met)
                           : NULL;
    if (!met) return false;
    struct windows windows = {v + POOL_MAX_KERNEL_ROWS, from.rows, from.columns, channels, false, x};
    struct finish finish = finish_of(memories,
                                     v + (one->form->kind == POOL_MAX ? (int)POOL_MAX_LO : (int)POOL_AVERAGE_LO));
    pool_windows(one, &windows, &finish, met, result);
    return end_tile(memories, &to, result);
}

/* Subtract an operand's zero point, and multiply. multiplier: 0 for none. */
static int64_t scaled(int8_t element, int64_t zero, int64_t multiplier, int64_t left) {
    return (element - zero) * (multiplier ? multiplier : (int64_t)1 << left);
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

static bool eltwise(struct memories *memories, const struct instruction *one) {
    const int64_t *v = one->values;
    int64_t rows = v[MISC_ELTWISE_ROWS], columns = v[MISC_ELTWISE_COLUMNS], channels = v[MISC_ELTWISE_CHANNELS];
    struct tile to = tile_of("to", v + MISC_ELTWISE_TO, rows, columns, channels);
    struct tile first = tile_of("from", v + MISC_ELTWISE_FROM, rows, columns, channels);
    struct tile second = tile_of("second", v + MISC_ELTWISE_SECOND, rows, columns, channels);
    int8_t *result = result_of(memories, &to);
    const int8_t *a = result ? read_tile(memories, &first, FIRST) : NULL;
    const int8_t *b = a && v[MISC_ELTWISE_OP] != OP_COPY ? read_tile(memories, &second, SECOND) : a;
    if (!b) return false;
    struct finish finish = finish_of(memories, v + MISC_ELTWISE_LO);
    for (int64_t i = 0; i < rows * columns * channels; i++) {
        int64_t x = scaled(a[i], v[MISC_ELTWISE_FROM_ZERO], v[MISC_ELTWISE_MULTIPLIER], v[MISC_ELTWISE_LEFT]);
        int64_t y = scaled(b[i], v[MISC_ELTWISE_SECOND_ZERO], v[MISC_ELTWISE_SECOND_MULTIPLIER],
                           v[MISC_ELTWISE_SECOND_LEFT]);
        result[i] = finished(&finish, combined(v[MISC_ELTWISE_OP], x, y), v[MISC_ELTWISE_SHIFT]);
    }
    return end_tile(memories, &to, result);
}

static bool upsample(struct memories *memories, const struct instruction *one) {
    const int64_t *v = one->values;
    int64_t rows = v[MISC_UPSAMPLE_OUT_ROWS], columns = v[MISC_UPSAMPLE_OUT_COLUMNS],
            channels = v[MISC_UPSAMPLE_CHANNELS];
    int64_t factor_rows = v[MISC_UPSAMPLE_FACTOR_ROWS], factor_columns = v[MISC_UPSAMPLE_FACTOR_COLUMNS];
    int64_t phase_row = v[MISC_UPSAMPLE_PHASE_ROW], phase_column = v[MISC_UPSAMPLE_PHASE_COLUMN];
    struct tile to = tile_of("to", v + MISC_UPSAMPLE_TO, rows, columns, channels);
    struct tile from = tile_of("from", v + MISC_UPSAMPLE_FROM, blocks(phase_row + rows, factor_rows),
                               blocks(phase_column + columns, factor_columns), channels);
    int8_t *result = result_of(memories, &to);
    const int8_t *x = result ? read_tile(memories, &from, FIRST) : NULL;
    if (!x) return false;
    struct finish finish = finish_of(memories, v + MISC_UPSAMPLE_LO);
    for (int64_t i = 0; i < rows * columns * channels; i++) {
        int64_t pixel = i / channels, y = (phase_row + pixel / columns) / factor_rows;
        int64_t at = (y * from.columns + (phase_column + pixel % columns) / factor_columns) * channels + i % channels;
        result[i] = finished(&finish, x[at], v[MISC_UPSAMPLE_SHIFT]);
    }
    return end_tile(memories, &to, result);
}

static bool reorganise(struct memories *memories, const struct instruction *one) {
    const int64_t *v = one->values;
    int64_t rows = v[MISC_REORGANISE_OUT_ROWS], columns = v[MISC_REORGANISE_OUT_COLUMNS];
    int64_t factor_rows = v[MISC_REORGANISE_FACTOR_ROWS], factor_columns = v[MISC_REORGANISE_FACTOR_COLUMNS];
    int64_t channels = v[MISC_REORGANISE_CHANNELS], made = channels * factor_rows * factor_columns;
    struct tile to = tile_of("to", v + MISC_REORGANISE_TO, rows, columns, made);
    struct tile from = tile_of("from", v + MISC_REORGANISE_FROM, rows * factor_rows, columns * factor_columns,
                               channels);
    int8_t *result = result_of(memories, &to);
    const int8_t *x = result ? read_tile(memories, &from, FIRST) : NULL;
    if (!x) return false;
    struct finish finish = finish_of(memories, v + MISC_REORGANISE_LO);
    for (int64_t i = 0; i < rows * columns * made; i++) {
        int64_t pixel = i / made, position = i % made / channels;
        int64_t y = pixel / columns * factor_rows + position / factor_columns;
        int64_t at = (y * from.columns + pixel % columns * factor_columns + position % factor_columns) * channels;
        result[i] = finished(&finish, x[at + i % channels], v[MISC_REORGANISE_SHIFT]);
    }
    return end_tile(memories, &to, result);
}

bool compute(struct memories *memories, const struct instruction *one) {
    switch (one->form->kind) {
    case CONV_DENSE:
    case CONV_DEPTHWISE:
    case CONV_TRANSPOSED: return convolve(memories, one);
    case POOL_MAX:
    case POOL_AVERAGE: return pool(memories, one);
    case MISC_ELTWISE: return eltwise(memories, one);
    case MISC_UPSAMPLE: return upsample(memories, one);
    case MISC_REORGANISE: return reorganise(memories, one);
    default: return true;
    }
}
