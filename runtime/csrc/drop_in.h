/* The subgraphs of a partial model library: the parts of a network that other runtimes call. */
#ifndef MAVCG_DROP_IN_H
#define MAVCG_DROP_IN_H

#include <stdint.h>

#include "engine_api.h"

/* A subgraph in one size. name: the operator that stands for the subgraph in an ONNX model. fingerprint: digest of the
 * subgraph, which the model's node carries too. table: functions of its engine. size: number of the size, from 0.
 * graph: number of the graph in drop_in_graphs that has its nodes. nodes, inputs, outputs (TFLite only): ascending positions of its operators in the file, and the tensors that are the
 * engine's arguments. */
struct drop_in_part {
    const char *name, *fingerprint;
    const mavcg_model_table *table;
    uint32_t size, graph, node_count;
    const int32_t *nodes, *inputs, *outputs;
};

/* A subgraph of an ONNX model. Its parts, one for each size, are contiguous in the table of parts. inputs, outputs:
 * names of the model's values. */
struct drop_in_op {
    uint32_t first, count;
    const char *const *inputs, *const *outputs;
};

enum { DIGEST_BYTES = 32, MESSAGE_BYTES = 512, MAX_RANK = 16 };

/* A TFLite file: its size in bytes and its BLAKE2b digest. */
struct drop_in_file {
    uint64_t bytes;
    uint8_t digest[DIGEST_BYTES];
};

/* A graph of a TFLite file, the main one first: its number of operators, its number in the file, and an anchor constant
 * that no other graph has, given as tensor number and file offset of its data. */
struct drop_in_graph {
    uint64_t anchor_offset;
    int32_t nodes, anchor_tensor, number;
};

/* The file of an ONNX model, or a file of its external data. location: its path relative to the model's folder. */
struct drop_in_model_file {
    const char *location;
    uint64_t bytes;
    uint8_t digest[DIGEST_BYTES];
};

#include "mavcg_parts.h" /* generated, see runtime/drop_in_text.py */

#endif
