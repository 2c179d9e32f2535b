/* Look-ups in the generated table of cores. */
#include "names.h"

#include "internal.h"
#include "needs.h"
#include "text.h"

MAVCG_PRIVATE const char *core_name(const struct mavcg_set *set, unsigned id) {
    const char *entry = set->core_names;
    for (; *entry; entry += 1 + text_bytes(entry + 1) + 1)
        if ((unsigned char)*entry == id) return entry + 1;
    return "generic";
}

MAVCG_PRIVATE unsigned core_id(const struct mavcg_set *set, const char *name, size_t bytes, bool *is_known) {
    const char *entry = set->core_names;
    *is_known = false;
    for (; *entry; entry += 1 + text_bytes(entry + 1) + 1) {
        if (!same_text(entry + 1, name, bytes)) continue;
        *is_known = true;
        if (can_run(set, (unsigned char)*entry)) return (unsigned char)*entry;
    }
    return MAVCG_NOT_KNOWN;
}

/* True if a version may run on this machine; of a machine that is not this one, only its files are known. */
static bool is_met(const struct mavcg_machine *machine, const struct mavcg_set *set, unsigned id) {
    return !MAVCG_IS_LIVE(machine) || can_run(set, id);
}

/* Fields of MIDR_EL1: see the Arm Architecture Reference Manual. */
MAVCG_PRIVATE unsigned core_of_midr(const struct mavcg_machine *machine, const struct mavcg_set *set, uint32_t midr) {
    unsigned implementer = midr >> 24, variant = midr >> 20 & 0xF, part = midr >> 4 & 0xFFF;
    for (const struct mavcg_midr_rule *rule = set->midr_rules; rule->id; rule++)
        if (rule->implementer == implementer && rule->part == part && rule->variant_min <= variant &&
            variant <= rule->variant_max && is_met(machine, set, rule->id))
            return rule->id;
    return MAVCG_GENERIC;
}

MAVCG_PRIVATE unsigned core_of_x86(const struct mavcg_machine *machine, const struct mavcg_set *set,
                                   struct x86_identity cpu, enum x86_kind kind) {
    for (const struct mavcg_x86_rule *rule = set->x86_rules; rule->id; rule++)
        if (rule->kind == kind &&
            (rule->vendor == X86_ANY_VENDOR || (rule->vendor == cpu.vendor && rule->family == cpu.family &&
                                                rule->model_min <= cpu.model && cpu.model <= rule->model_max)) &&
            is_met(machine, set, rule->id))
            return rule->id;
    return MAVCG_GENERIC;
}
