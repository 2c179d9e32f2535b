/* Counts the operations of an instruction from its fields, before it is executed: with windows of 1023 x 1023 positions
 * and tiles of a million pixels, a few instructions would keep a processor busy for days. */
#include "execution.h"

/* Operations that take as long as finding the pixel that a position of a window meets. */
enum { POSITION_OPERATIONS = 16 };

static double product(const int64_t *values, int count) {
    double made = 1; /* not an integer: five fields of 20 bits do not fit into 64 */
    for (int i = 0; i < count; i++) made *= (double)values[i];
    return made;
}

double operations_of(const mavcg_accel_sizes *sizes, const struct instruction *one) {
    const int64_t *v = one->values;
    double read, made, positions;
    switch (one->form->kind) {
    case LOAD_MAP:
    case SAVE_MAP: return product(v + LOAD_MAP_ROWS, 3);
    case LOAD_PARAMETERS: return (double)v[LOAD_PARAMETERS_WORDS] * sizes->word * sizes->oc_lanes;
    case CONV_DENSE:
    case CONV_DEPTHWISE:
    case CONV_TRANSPOSED:
        read = product(v + CONV_DENSE_ROWS, 3);
        made = product(v + CONV_DENSE_OUT_ROWS, 2);
        positions = made * product(v + CONV_DENSE_KERNEL_ROWS, 2);
        made *= (double)v[CONV_DENSE_OUT_CHANNELS];
        return read + made +
               positions *
                   (POSITION_OPERATIONS + (double)v[CONV_DENSE_OUT_CHANNELS] *
                                              (one->form->kind == CONV_DEPTHWISE ? 1 : (double)v[CONV_DENSE_CHANNELS]));
    case POOL_MAX:
    case POOL_AVERAGE:
        read = product(v + POOL_MAX_ROWS, 3);
        made = product(v + POOL_MAX_OUT_ROWS, 2);
        positions = made * product(v + POOL_MAX_KERNEL_ROWS, 2);
        made *= (double)v[POOL_MAX_CHANNELS];
        return read + made + positions * (POSITION_OPERATIONS + (double)v[POOL_MAX_CHANNELS]);
    case MISC_ELTWISE: return 3 * product(v + MISC_ELTWISE_ROWS, 3);
    case MISC_UPSAMPLE: return 2 * product(v + MISC_UPSAMPLE_OUT_ROWS, 3);     /* rows, columns and channels */
    case MISC_REORGANISE: return 2 * product(v + MISC_REORGANISE_OUT_ROWS, 5); /* and the two sides of a block */
    default: return 1;
    }
}

bool count_operations(struct execution *execution, const struct instruction *one) {
    uint64_t most = execution->job.most_operations ? execution->job.most_operations : MAVCG_ACCEL_OPERATIONS;
    double count = operations_of(&execution->memories->sizes, one);
    execution->operations += count;
    return execution->operations <= (double)most ||
           fault(execution->memories,
                 "takes %.4g operations, with those before it %.4g; a job has %" PRIu64
                 " at most: if the program is not damaged, mavcg accel run --max-operations or "
                 "mavcg_accel_simulator_limit sets more",
                 count, execution->operations, most);
}
