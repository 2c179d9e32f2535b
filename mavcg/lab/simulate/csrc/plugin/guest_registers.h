/* Addresses of prefetches, from the registers of the emulated CPU at the begin of a block and the steps up to them. */
#ifndef MAVCG_GUEST_REGISTERS_H
#define MAVCG_GUEST_REGISTERS_H
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include "integer_steps.h"

/* The interface has no registers before version 2. On x86-64 hosts, generated code keeps the address of the emulated
   CPU's state in rbp, and its registers are in memory at the begin of a block: CPUARMState in target/arm/cpu.h begins
   with uint32_t regs[16] and uint64_t xregs[32]. They are trusted after TRUSTED addresses computed from them were those
   that the emulator reported, and never again after one that was not. */
enum { REGISTERS_AT = 64, TRUSTED = 32 };
static _Atomic int32_t right_addresses; /* -1: a wrong one was seen */

static uint64_t value_of(const void *state, uint32_t number) {
    uint64_t value;
    memcpy(&value, (const char *)state + REGISTERS_AT + number * sizeof value, sizeof value);
    return value;
}

static int is_prefetch(uint32_t word) { /* prfm immediate, prfum, prfm register */
    return (word & 0xffc00000) == 0xf9800000 || (word & 0xffe00c00) == 0xf8800000 || (word & 0xffe00c00) == 0xf8a00800;
}

/* True for a load or store of one register at [x, #offset] or [x], #offset, whose address known_address gives. */
static int is_checked(uint32_t word) { return (word & 0x3b000000) == 0x39000000 || (word & 0x3b200c00) == 0x38000400; }

static uint64_t known_address(uint32_t word, const void *state) {
    uint64_t address = value_of(state, word >> 5 & 31);
    if ((word & 0x3b000000) != 0x39000000) return address; /* before the register moves */
    uint32_t shift = (word & 0x04800000) == 0x04800000 && word >> 30 == 0 ? 4 : word >> 30; /* q registers: 16 bytes */
    return address + ((uint64_t)(word >> 10 & 0xfff) << shift);
}

/* Return 1 with the address of a prefetch, or 0 where its registers are not known. */
static int prefetch_address(uint32_t word, const integers *r, uint64_t *address) {
    uint32_t n = bits(word, 5, 5), m = bits(word, 16, 5), option = bits(word, 13, 3);
    int by_register = (word & 0xffe00c00) == 0xf8a00800;
    if (!has_value(r, n, 1) || (by_register && !has_value(r, m, 0))) return 0;
    *address = read_register(r, n, 1);
    if (by_register) *address += extended(read_register(r, m, 0), option) << (word >> 12 & 1 ? 3 : 0);
    else if ((word & 0xffc00000) == 0xf9800000) *address += (uint64_t)bits(word, 10, 12) << 3;
    else *address += (uint64_t)signed_bits(word, 12, 9);
    return 1;
}

static void read_integers(integers *r, const void *state) {
    memcpy(r->value, (const char *)state + REGISTERS_AT, sizeof r->value);
    r->known = ~0u;
}

#endif
