/* The subgraphs of a partial model library: the parts of a network that other runtimes call. */
#ifndef MAVCG_DROP_IN_H
#define MAVCG_DROP_IN_H

#include <stdint.h>

#include "engine_api.h"

/* name: of the operator that stands for the subgraph in the user's model. fingerprint: digest of the subgraph, which the
 * model's node has too. table: the functions of its engine. */
struct drop_in_part {
    const char *name, *fingerprint;
    const mavcg_model_table *table;
};

#include "mavcg_parts.h" /* generated, see runtime/drop_in_text.py */

#endif
