/* Core names and ids, and the rules that recognise cores, by the generated table (runtime/coreset.py):
 *   core_names   for each name a byte with its id, the name and a NUL; a byte 0 ends the list. A name comes once for each
 *                version that the core may run, the best first: its own, those of its stand-ins, generic for a name that
 *                this library has no version for. The first name of an id is the version's own.
 *   midr_rules   the first match whose needs are met wins; an entry with id 0 ends the list. x86_rules likewise.
 *   needs        by id from MAVCG_FIRST_CORE on: the extensions that the version's instructions need (needs.h). */
#ifndef MAVCG_NAMES_H
#define MAVCG_NAMES_H

#include "internal.h"

/* Return the name of a version: the first name with its id; "generic" for other ids. */
MAVCG_PRIVATE const char *core_name(const struct mavcg_set *set, unsigned id);

/* Return the id of the best version of a core that this machine can run; MAVCG_NOT_KNOWN if there is none. *is_known:
 * whether the name is in the table. */
MAVCG_PRIVATE unsigned core_id(const struct mavcg_set *set, const char *name, size_t bytes, bool *is_known);

/* Return the id of the version for a MIDR_EL1; MAVCG_GENERIC if no rule recognises the core, or none that the machine can
 * run. */
MAVCG_PRIVATE unsigned core_of_midr(const struct mavcg_machine *machine, const struct mavcg_set *set, uint32_t midr);

/* Return the id of the version for an x86 processor, as core_of_midr does. kind: X86_NO_KIND unless the processor is a
 * hybrid. */
MAVCG_PRIVATE unsigned core_of_x86(const struct mavcg_machine *machine, const struct mavcg_set *set,
                                   struct x86_identity cpu, enum x86_kind kind);

#endif
