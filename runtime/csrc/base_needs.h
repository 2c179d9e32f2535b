/* The contract between a whole library and the machine: what every one of its versions needs. */
#ifndef MAVCG_BASE_NEEDS_H
#define MAVCG_BASE_NEEDS_H

#include "internal.h"

/* True if this machine offers what the library's generic versions need, as bits like those of struct mavcg_set. On Arm
 * that is nothing beyond Armv8.0-A, which every machine offers, unless kernels compute in half precision. */
MAVCG_PRIVATE bool offers_base(const uint32_t needs[MAVCG_NEED_WORDS]);

#endif
