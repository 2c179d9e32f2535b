/* The functions of the detection library (detect.c) that runtime/binding.py calls; Python's declarations are made of it. */
#ifndef MAVCG_DETECT_API
#define MAVCG_DETECT_API 1

#include <stddef.h>
#include <stdint.h>

/* Find the core type of each CPU. root: path before /sys and /proc, "" for this machine. live: also read this machine's
 * registers. map: as MAVCG_CPU_MAP, or NULL. The arrays have MAVCG_CPUS zeros. Returns NULL, or the fault of the map,
 * with its part of the map in fault_at and fault_bytes. */
const char *mavcg_detect(const char *root, int live, const char *map, uint8_t *listed, uint8_t *id, uint8_t *how,
                         uint32_t *seen, size_t *fault_at, size_t *fault_bytes);

/* The source that an entry of `how` stands for, as static text. */
const char *mavcg_how_words(unsigned how);

#endif
