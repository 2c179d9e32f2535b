/* The subgraphs of a partial model library: the parts of a network that other runtimes call. */
#ifndef MAVCG_DROP_IN_H
#define MAVCG_DROP_IN_H

#include <stdint.h>

#include "engine_api.h"

/* A subgraph in one size. name: of the operator that stands for the subgraph in an ONNX model. fingerprint: digest of the
 * subgraph, which the model's node has too. table: the functions of its engine. size: number of the size, from 0.
 * nodes, inputs, outputs: of a TFLite file, the positions of its operators, ascending, and the tensors that are the
 * arguments of the engine. */
struct drop_in_part {
    const char *name, *fingerprint;
    const mavcg_model_table *table;
    uint32_t size, node_count;
    const int32_t *nodes, *inputs, *outputs;
};

/* A subgraph of an ONNX model: its parts, one for each size, lie one after the other. inputs, outputs: names of the
 * model's values. */
struct drop_in_op {
    uint32_t first, count;
    const char *const *inputs, *const *outputs;
};

enum { DIGEST_BYTES = 32, MESSAGE_BYTES = 512 };

/* A TFLite file: its size, its BLAKE2b digest, number of operators, and a constant: the tensor's number and the offset of
 * its data. */
struct drop_in_file {
    uint64_t bytes, anchor_offset;
    int32_t nodes, anchor_tensor;
    uint8_t digest[DIGEST_BYTES];
};

/* An ONNX model's file, or a file of its external data: location is its path from the model's folder. */
struct drop_in_model_file {
    const char *location;
    uint64_t bytes;
    uint8_t digest[DIGEST_BYTES];
};

#include "mavcg_parts.h" /* generated, see runtime/drop_in_text.py */

#endif
