/* The functions of the detection library (detect.c) that runtime/binding.py calls. Python's declarations are generated
 * from this file. */
#ifndef MAVCG_DETECT_API
#define MAVCG_DETECT_API 1

#include <stddef.h>
#include <stdint.h>

/* Detect the core type of each CPU. root: prefix of /sys and /proc, "" for this machine. live: whether to read this
 * machine's registers too. map: a text as in MAVCG_CPU_MAP, or NULL. The arrays have MAVCG_CPUS elements, all zero.
 * Returns NULL, or the fault of the map; fault_at and fault_bytes then receive the position and length of the faulty
 * part. */
const char *mavcg_detect(const char *root, int live, const char *map, uint8_t *listed, uint8_t *id, uint8_t *how,
                         uint32_t *seen, size_t *fault_at, size_t *fault_bytes);

/* Return the name of the source of facts that an entry of `how` stands for, as static text. */
const char *mavcg_how_words(unsigned how);

/* Ask for the use of AMX's tile registers in this process. Returns 1 if it is given, 0 if not. */
int mavcg_tiles_permitted(void);

#endif
