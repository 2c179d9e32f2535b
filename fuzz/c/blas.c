/* The routines of a BLAS library by all of their doors, with arguments of any kind: Fortran and CBLAS, integers of 32
 * and 64 bits, f32, f64, bf16, f16, and f16 throughout. What must hold: an invalid argument is reported by its number,
 * as the reference does, and nothing is written; a valid call gives the exact result, touches nothing outside of the
 * arrays, and nothing between columns.
 *
 * All values are small multiples of 1/4, or of 1/2 where sums are f16, so that sums are exact in every type, and in any
 * order. */
#include <math.h>

#include "blas_doors.h"
#include "guarded.h"

enum { MOST = 96, USUAL = 24, ELEMENTS = 1 << 16, WORK = 1 << 19, MOST_CALLS = 6 };

static struct guarded memory[3];
static double a[ELEMENTS], b[ELEMENTS], c[ELEMENTS], expected[ELEMENTS];

/* Bytes of an element of A and B. */
static size_t item(enum type type) { return type == F64 ? 8 : type == F32 ? 4 : 2; }

static void put(enum type type, char *to, double value) {
    float single = (float)value;
    uint32_t bits;
    if (type == F64) {
        memcpy(to, &value, sizeof value);
        return;
    }
    if (type == F32) {
        memcpy(to, &single, sizeof single);
        return;
    }
    memcpy(&bits, &single, sizeof bits);
    uint16_t half = (uint16_t)(bits >> 16); /* bfloat16: the values have few bits */
    if (type != BF16) half = isnan(single) ? 0x7e00 : half_of(single);
    memcpy(to, &half, sizeof half);
}

static double get(enum type type, const char *from) {
    float single;
    double value;
    if (type == ALL_F16) {
        uint16_t half;
        memcpy(&half, from, sizeof half);
        int exponent = half >> 10 & 31, mantissa = half & 0x3ff;
        value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                               : ldexp(mantissa + (exponent ? 1024 : 0), (exponent ? exponent : 1) - 25);
        return half >> 15 ? -value : value;
    }
    if (type != F64) {
        memcpy(&single, from, sizeof single);
        return single;
    }
    memcpy(&value, from, sizeof value);
    return value;
}

/* A result as C holds it: f16 has 11 bits. */
static double rounded(enum type type, double value) {
    int exponent;
    if (type != ALL_F16 || value == 0 || isnan(value)) return value;
    frexp(value, &exponent);
    return ldexp(nearbyint(ldexp(value, 11 - exponent)), exponent - 11);
}

/* A matrix or a vector as it lies in memory: element (i, j) at begin + i * row + j * column, in elements. */
struct place {
    int64_t rows, columns, row, column, begin, elements;
};

/* Of `rows` by `columns` with this leading dimension; by_rows: the rows are contiguous. */
static struct place matrix_place(int64_t rows, int64_t columns, int64_t stride, int by_rows) {
    int64_t lines = by_rows ? rows : columns, length = by_rows ? columns : rows;
    int64_t step = lines > 1 ? stride : 0, elements = lines && length ? (lines - 1) * step + length : 0;
    return (struct place){rows, columns, by_rows ? step : 1, by_rows ? 1 : step, 0, elements};
}

static struct place vector_place(int64_t count, int64_t step) {
    int64_t used = count > 1 ? step : 0, span = count ? (count - 1) * llabs(used) + 1 : 0;
    return (struct place){count, 1, used, 0, used < 0 ? (1 - count) * used : 0, span};
}

static int64_t at(const struct place *place, int64_t i, int64_t j) {
    return place->begin + i * place->row + j * place->column;
}

/* Put values into an array; elements between rows and columns, and those that are not read, are NaN. */
static void *fill(struct guarded where, enum type type, const struct place *place, double *values, int is_read,
                  int at_end, uint32_t seed) {
    size_t bytes = item(type);
    char *array = array_in(where, (size_t)place->elements * bytes, at_end);
    for (int64_t i = 0; i < place->elements; i++) values[i] = NAN;
    for (int64_t i = 0; is_read && i < place->rows; i++)
        for (int64_t j = 0; j < place->columns; j++) {
            seed = seed * 1103515245 + 12345;
            int number = (int)(seed >> 16 & 15) - 8;
            values[at(place, i, j)] = type == ALL_F16 ? number / 4 * 0.5 : number * 0.25;
        }
    for (int64_t i = 0; i < place->elements; i++) put(type, array + (size_t)i * bytes, values[i]);
    return array;
}

/* An argument of a call: mostly right, sometimes one too few, or anything. */
static int64_t odd(struct bytes *in, int64_t right, int wide) {
    int64_t value = right;
    switch (next(in, 1) & 31) {
    case 1: value = (int64_t)((uint64_t)right - 1); break;
    case 2: value = (int64_t)((uint64_t)right + 1); break;
    case 3: value = (int64_t)((uint64_t)right + next(in, 1) % 20); break;
    case 4: value = 0; break;
    case 5: value = -1; break;
    case 6: value = (int64_t)next(in, 1) - 128; break;
    case 7: value = (int64_t)next(in, 8); break;
    case 8: value = wide ? INT64_MAX : INT32_MAX; break;
    case 9: value = wide ? INT64_MIN : INT32_MIN; break;
    default: break;
    }
    return wide ? value : (int32_t)value;
}

static struct call read_call(struct bytes *in) {
    static const char letters[] = "NTCntcNTNTNTNTNX";
    static const int numbers[] = {111, 112, 113, 111, 112, 113, 111, 114},
                     orders[] = {101, 102, 101, 102, 101, 102, 101, 9};
    static const double factors[] = {1, 0, -1, 0.5, 2, 1, -0.25, 1};
    uint32_t how = (uint32_t)next(in, 2), what = (uint32_t)next(in, 2);
    struct call call = {.type = how & 3, .vector = how >> 2 & 1, .cblas = how >> 3 & 1, .wide = how >> 4 & 1};
    call.order = orders[how >> 5 & 7], call.alpha = factors[how >> 8 & 7], call.beta = factors[how >> 11 & 7];
    call.a_letter = letters[what & 15], call.b_letter = letters[what >> 4 & 15];
    call.a_number = numbers[what >> 8 & 7], call.b_number = numbers[what >> 11 & 7];
    if (call.vector) call.type &= 1;
    else if (call.type == F16 && how >> 14 & 1) call.type = ALL_F16;
    int64_t sizes = what >> 15 ? MOST : USUAL; /* large ones take time */
    call.m = (int64_t)next(in, 1) % sizes, call.n = (int64_t)next(in, 1) % sizes, call.k = (int64_t)next(in, 1) % sizes;
    if (what >> 14 & 1) call.k *= 4;
    call.m = odd(in, call.m, 0), call.n = odd(in, call.n, 0), call.k = odd(in, call.k, 0);
    int row = call.cblas && call.order == ROW_MAJOR;
    int a_t = transposed(&call, 0) > 0, b_t = transposed(&call, 1) > 0;
    if (call.vector) {
        call.lda = odd(in, most(1, row ? call.n : call.m), call.wide);
        call.ldb = odd(in, (int64_t)next(in, 1) % 7 - 3, call.wide);
        call.ldc = odd(in, (int64_t)next(in, 1) % 7 - 3, call.wide);
        return call;
    }
    call.lda = odd(in, most(1, a_t != row ? call.k : call.m), call.wide);
    call.ldb = odd(in, most(1, b_t != row ? call.n : call.k), call.wide);
    call.ldc = odd(in, most(1, row ? call.n : call.m), call.wide);
    return call;
}

/* Strides may be of any size where there is no second row or column. */
static int small(int64_t count, int64_t stride) {
    return count <= 1 || (stride > -ELEMENTS && stride < ELEMENTS && count < ELEMENTS);
}

/* What the call is to leave in C or y. Without sanitizers: most of the time goes here. */
__attribute__((no_sanitize("address", "undefined", "coverage"))) static void compute(const struct call *call,
                                                                                     const struct place *pa,
                                                                                     const struct place *pb,
                                                                                     const struct place *pc) {
    int a_t = transposed(call, 0) > 0, b_t = !call->vector && transposed(call, 1) > 0;
    int64_t terms = !call->vector ? call->k : a_t ? call->m : call->n;
    int64_t a_outer = a_t ? pa->column : pa->row, a_inner = a_t ? pa->row : pa->column;
    int64_t b_outer = b_t ? pb->row : pb->column, b_inner = b_t ? pb->column : pb->row;
    for (int64_t i = 0; i < pc->rows; i++)
        for (int64_t j = 0; j < pc->columns; j++) {
            double sum = 0, *to = &expected[pc->begin + i * pc->row + j * pc->column];
            const double *left = a + i * a_outer, *right = b + pb->begin + j * b_outer;
            for (int64_t l = 0; call->alpha != 0 && l < terms; l++) sum += left[l * a_inner] * right[l * b_inner];
            *to = (call->alpha == 0 ? 0 : call->alpha * sum) + (call->beta == 0 ? 0 : call->beta * *to);
        }
}

static void run(struct bytes *in) {
    struct call call = read_call(in);
    int ends = (int)next(in, 1), row = call.cblas && call.order == ROW_MAJOR, a_t = transposed(&call, 0) > 0,
        b_t = transposed(&call, 1) > 0;
    uint32_t seed = (uint32_t)next(in, 2);
    int64_t bad = wrong(&call);
    reported = 0;
    if (bad) { /* nothing is accessed */
        if (call.vector) call_vector(&call, NULL, NULL, NULL);
        else call_product(&call, NULL, NULL, NULL);
        need(reported == bad);
        return;
    }
    int64_t m = call.m, n = call.n, k = call.k;
    if (m > ELEMENTS || n > ELEMENTS || k > ELEMENTS) return;
    struct place pa, pb, pc;
    if (call.vector) {
        int64_t lines = row ? m : n;
        if (!small(lines, call.lda) || !small(m > n ? m : n, call.ldb) || !small(m > n ? m : n, call.ldc)) return;
        pa = matrix_place(m, n, call.lda, row);
        pb = vector_place(a_t ? m : n, call.ldb), pc = vector_place(a_t ? n : m, call.ldc);
    } else {
        if (m * n > ELEMENTS || m * k > ELEMENTS || n * k > ELEMENTS || m * n * k > WORK) return;
        if (!small(a_t != row ? m : k, call.lda) || !small(b_t != row ? k : n, call.ldb) ||
            !small(row ? m : n, call.ldc))
            return;
        pa = matrix_place(a_t ? k : m, a_t ? m : k, call.lda, row);
        pb = matrix_place(b_t ? n : k, b_t ? k : n, call.ldb, row);
        pc = matrix_place(m, n, call.ldc, row);
    }
    if (pa.elements > ELEMENTS || pb.elements > ELEMENTS || pc.elements > ELEMENTS) return;
    enum type result = call.type == F64 || call.type == ALL_F16 ? call.type : F32;
    void *in_a = fill(memory[0], call.type, &pa, a, call.alpha != 0, ends & 1, seed);
    void *in_b = fill(memory[1], call.type, &pb, b, call.alpha != 0, ends >> 1 & 1, seed + 1);
    char *out = fill(memory[2], result, &pc, c, call.beta != 0, ends >> 2 & 1, seed + 2);
    memcpy(expected, c, (size_t)pc.elements * sizeof *c);
    if (m && n) compute(&call, &pa, &pb, &pc); /* else y and C stay as they are, as with the reference */
    if (call.vector) call_vector(&call, in_a, in_b, out);
    else call_product(&call, in_a, in_b, out);
    need(!reported);
    for (int64_t i = 0; i < pc.elements; i++) {
        double have = get(result, out + (size_t)i * item(result)), want = rounded(result, expected[i]);
        need(isnan(want) ? isnan(have) : have == want);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes in = {data, data + size};
    for (int i = 0; i < 3 && !memory[i].begin; i++) memory[i] = guarded_memory(ELEMENTS * sizeof(double));
    for (int calls = 0; calls < MOST_CALLS && in.at < in.end; calls++) run(&in);
    return 0;
}
