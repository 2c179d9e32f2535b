/* Core names and ids, and the rules that recognise cores, by the generated table (runtime/coreset.py):
 *   core_names   for each name a byte with its id, the name and a NUL; a byte 0 ends the list. A name that this library
 *                has no version for has the id of its stand-in, or MAVCG_GENERIC.
 *   midr_rules   the first match wins; an entry with id 0 ends the list. x86_rules likewise.
 *   x86_needs    by id from MAVCG_FIRST_CORE on: the CPUID bits that the version's code needs (x86_needs.h). */
#ifndef MAVCG_NAMES_H
#define MAVCG_NAMES_H

#include "internal.h"

/* Return the name of a version: the first name with its id; "generic" for other ids. */
MAVCG_PRIVATE const char *core_name(const struct mavcg_set *set, unsigned id);

/* Return the id of a core's version; MAVCG_NOT_KNOWN if the name is not in the table. */
MAVCG_PRIVATE unsigned core_id(const struct mavcg_set *set, const char *name, size_t bytes);

/* Return the id of the version for a MIDR_EL1; MAVCG_GENERIC if no rule recognises the core. */
MAVCG_PRIVATE unsigned core_of_midr(const struct mavcg_set *set, uint32_t midr);

/* Return the id of the version for an x86 processor; MAVCG_GENERIC if no rule recognises it. kind: X86_NO_KIND unless
 * the processor is a hybrid. */
MAVCG_PRIVATE unsigned core_of_x86(const struct mavcg_set *set, struct x86_identity cpu, enum x86_kind kind);

#endif
