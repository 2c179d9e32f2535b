/* Defines a core set from the generated table: one copy per link. */
#include "set.h"

#include "internal.h"
#include "mavcg_core_table.h" /* generated, see runtime/coreset.py */

MAVCG_SHARED uint64_t MAVCG_NAME(rseq_offset, MAVCG_SET);
MAVCG_SHARED uint8_t MAVCG_NAME(core_of_cpu, MAVCG_SET)[MAVCG_CPUS];
MAVCG_SHARED struct mavcg_state MAVCG_NAME(state, MAVCG_SET);

MAVCG_PRIVATE const struct mavcg_set core_set = {
    .abi = MAVCG_ABI,
    .versions = MAVCG_VERSIONS,
    .midr_rules = midr_rules,
    .x86_rules = x86_rules,
    .needs = needs,
    .core_names = core_names,
    .core_of_cpu = MAVCG_NAME(core_of_cpu, MAVCG_SET),
    .rseq_offset = &MAVCG_NAME(rseq_offset, MAVCG_SET),
    .state = &MAVCG_NAME(state, MAVCG_SET),
};
