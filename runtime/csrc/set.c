/* A core set's data, of the generated table: what dispatchers and the selector share. One copy a link. */

MAVCG_SHARED uint64_t MAVCG_NAME(rseq_offset, MAVCG_SET);
MAVCG_SHARED uint8_t MAVCG_NAME(core_of_cpu, MAVCG_SET)[MAVCG_CPUS];
MAVCG_SHARED struct mavcg_state MAVCG_NAME(state, MAVCG_SET);

static const struct mavcg_set core_set = {
    .abi = MAVCG_ABI,
    .versions = MAVCG_VERSIONS,
    .midr_rules = midr_rules,
    .x86_rules = x86_rules,
    .x86_needs = x86_needs,
    .core_names = core_names,
    .core_of_cpu = MAVCG_NAME(core_of_cpu, MAVCG_SET),
    .rseq_offset = &MAVCG_NAME(rseq_offset, MAVCG_SET),
    .state = &MAVCG_NAME(state, MAVCG_SET),
};
