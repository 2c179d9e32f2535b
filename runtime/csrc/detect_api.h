/* What runtime/binding.py calls of the library that is made of detect.c, and what it is declared by there. */
#ifndef MAVCG_DETECT_API
#define MAVCG_DETECT_API 1

#include <stddef.h>
#include <stdint.h>

/* root: before /sys and /proc, "" for this machine. live: also ask this machine's registers. map: as MAVCG_CPU_MAP,
 * or NULL. The arrays have MAVCG_CPUS zeros. Returns NULL, or what is wrong with the map and in which part of it. */
const char *mavcg_detect(const char *root, int live, const char *map, uint8_t *listed, uint8_t *id, uint8_t *how,
                         uint32_t *seen, size_t *fault_at, size_t *fault_bytes);

/* The source of an entry of `how` in words, static. */
const char *mavcg_how_words(unsigned how);

#endif
