/* Values of the integer registers within a block: what A64's plain arithmetic makes of those at its begin.

   From the Arm Architecture Reference Manual (DDI 0487), C4.1, "A64 instruction set encoding". An instruction that is
   not here makes what it may write unknown; memory and flags are never known. */
#ifndef MAVCG_INTEGER_STEPS_H
#define MAVCG_INTEGER_STEPS_H
#include <stdint.h>

/* value[31] is the stack pointer. Bit n of `known` says that value[n] is right. */
typedef struct {
    uint64_t value[32];
    uint32_t known;
} integers;

static uint32_t bits(uint32_t word, int low, int count) { return word >> low & ((1u << count) - 1); }
static int64_t signed_bits(uint32_t word, int low, int count) {
    return (int64_t)((uint64_t)word << (64 - low - count)) >> (64 - count);
}

/* Register 31 is the stack pointer where `pointer`, else zero. */
static int has_value(const integers *r, uint32_t n, int pointer) {
    return (n == 31 && !pointer) || (r->known >> n & 1);
}
static uint64_t read_register(const integers *r, uint32_t n, int pointer) {
    return n == 31 && !pointer ? 0 : r->value[n];
}
static void forget(integers *r, uint32_t n, int pointer) {
    if (n != 31 || pointer) r->known &= ~(1u << n);
}
static void write_register(integers *r, uint32_t n, int pointer, uint64_t value, int wide) {
    if (n == 31 && !pointer) return;
    r->value[n] = wide ? value : (uint32_t)value;
    r->known |= 1u << n;
}

static uint64_t shifted(uint64_t value, uint32_t kind, uint32_t amount, int wide) {
    uint32_t size = wide ? 64 : 32;
    if (!wide) value = (uint32_t)value;
    amount &= size - 1;
    if (amount == 0) return value;
    if (kind == 0) return value << amount;
    if (kind == 1) return value >> amount;
    if (kind == 2) return wide ? (uint64_t)((int64_t)value >> amount) : (uint64_t)(int64_t)((int32_t)value >> amount);
    return value >> amount | value << (size - amount);
}

static uint64_t extended(uint64_t value, uint32_t option) { /* uxtb, uxth, uxtw, uxtx, and signed */
    uint32_t unused = 64 - (8u << (option & 3));
    return option & 4 ? (uint64_t)((int64_t)(value << unused) >> unused) : value << unused >> unused;
}

/* Bits of sbfm and ubfm: `last` down to `first`, to the low end, or from 0 up to size - first where last < first. */
static uint64_t bit_field(uint64_t value, uint32_t first, uint32_t last, int wide, int with_sign) {
    uint32_t size = wide ? 64 : 32, width = last >= first ? last - first + 1 : last + 1;
    uint64_t field = (last >= first ? value >> first : value) << (64 - width);
    field = with_sign ? (uint64_t)((int64_t)field >> (64 - width)) : field >> (64 - width);
    return last >= first ? field : field << (size - first);
}

static void step_sum(integers *r, uint32_t word, int wide) { /* add and sub: immediate, shifted, extended */
    uint32_t d = bits(word, 0, 5), n = bits(word, 5, 5), m = bits(word, 16, 5);
    int flags = word >> 29 & 1, immediate = word >> 28 & 1, pointer = immediate || (word >> 21 & 1);
    int known = has_value(r, n, pointer) && (immediate || has_value(r, m, 0));
    if (!known || (!immediate && pointer && (bits(word, 22, 2) || bits(word, 10, 3) > 4))) {
        forget(r, d, pointer && !flags);
        return;
    }
    uint64_t second;
    if (immediate) second = (uint64_t)bits(word, 10, 12) << (word >> 22 & 1 ? 12 : 0);
    else if (pointer) second = extended(read_register(r, m, 0), bits(word, 13, 3)) << bits(word, 10, 3);
    else second = shifted(read_register(r, m, 0), bits(word, 22, 2), bits(word, 10, 6), wide);
    uint64_t first = read_register(r, n, pointer);
    write_register(r, d, pointer && !flags, word >> 30 & 1 ? first - second : first + second, wide);
}

static void step_logic(integers *r, uint32_t word, int wide) { /* and, orr, eor, ands of registers; mov */
    uint32_t d = bits(word, 0, 5), n = bits(word, 5, 5), m = bits(word, 16, 5);
    if (!has_value(r, n, 0) || !has_value(r, m, 0)) {
        forget(r, d, 0);
        return;
    }
    uint64_t first = read_register(r, n, 0);
    uint64_t second = shifted(read_register(r, m, 0), bits(word, 22, 2), bits(word, 10, 6), wide);
    if (word >> 21 & 1) second = ~second;
    uint32_t operation = bits(word, 29, 2);
    uint64_t value = operation == 1 ? first | second : operation == 2 ? first ^ second : first & second;
    write_register(r, d, 0, value, wide);
}

static void step_product(integers *r, uint32_t word, int wide) { /* madd, msub; smaddl and umaddl with their msub */
    uint32_t d = bits(word, 0, 5), n = bits(word, 5, 5), a = bits(word, 10, 5), m = bits(word, 16, 5);
    uint32_t kind = bits(word, 21, 3); /* 0: madd, 1: smaddl, 5: umaddl */
    if ((kind != 0 && kind != 1 && kind != 5) || !has_value(r, n, 0) || !has_value(r, a, 0) || !has_value(r, m, 0)) {
        forget(r, d, 0);
        return;
    }
    uint32_t option = kind == 0 ? 3 : kind == 1 ? 6 : 2;
    uint64_t product = extended(read_register(r, n, 0), option) * extended(read_register(r, m, 0), option);
    uint64_t sum = read_register(r, a, 0);
    write_register(r, d, 0, word >> 15 & 1 ? sum - product : sum + product, wide);
}

static void step_wide_move(integers *r, uint32_t word, int wide) { /* movn, movz, movk */
    uint32_t d = bits(word, 0, 5), operation = bits(word, 29, 2), at = 16 * bits(word, 21, 2);
    uint64_t value = (uint64_t)bits(word, 5, 16) << at;
    if (operation == 3 && !has_value(r, d, 0)) return;
    if (operation == 3) value |= read_register(r, d, 0) & ~(0xffffull << at);
    write_register(r, d, 0, operation == 0 ? ~value : value, wide);
}

/* Bytes of an ld1 to ld4 or st1 to st4, by which the address register moves. */
static uint32_t structure_bytes(uint32_t word) {
    static const uint8_t registers[16] = {4, 0, 4, 0, 3, 0, 3, 1, 2, 0, 2};
    if ((word >> 24 & 1) == 0) return registers[bits(word, 12, 4)] << (3 + (word >> 30 & 1));
    uint32_t opcode = bits(word, 13, 3), size = bits(word, 10, 2), count = ((opcode & 1) << 1 | (word >> 21 & 1)) + 1;
    return count << (opcode >> 1 == 3 ? size : opcode >> 1 == 2 ? 2 + (size & 1) : opcode >> 1);
}

/* Loads and stores: a loaded register is unknown, an address register moves. */
static void step_access(integers *r, uint32_t word) {
    uint32_t t = bits(word, 0, 5), n = bits(word, 5, 5), m = bits(word, 16, 5);
    int vector = word >> 26 & 1, pair = (word & 0x3a000000) == 0x28000000;
    int single = (word & 0x3b000000) == 0x39000000 || (word & 0x3b200000) == 0x38000000;
    int by_register = (word & 0x3b200c00) == 0x38200800, literal = (word & 0x3b000000) == 0x18000000;
    if (pair) {
        if (!vector && (word >> 22 & 1)) forget(r, t, 0), forget(r, bits(word, 10, 5), 0);
        uint32_t scale = 2 + (vector ? bits(word, 30, 2) : word >> 31);
        if (word >> 23 & 1) r->value[n] += (uint64_t)signed_bits(word, 15, 7) << scale; /* known or not */
        return;
    }
    if (single || by_register || literal) {
        if (!vector && (literal || bits(word, 22, 2))) forget(r, t, 0);
        if ((word & 0x3b200400) == 0x38000400) r->value[n] += (uint64_t)signed_bits(word, 12, 9);
        return;
    }
    if ((word & 0xbe000000) == 0x0c000000) { /* structures of vectors */
        if ((word >> 23 & 1) == 0) return;
        if (m == 31) r->value[n] += structure_bytes(word);
        else if (has_value(r, m, 0)) r->value[n] += read_register(r, m, 0);
        else forget(r, n, 1);
        return;
    }
    forget(r, t, 0), forget(r, bits(word, 10, 5), 0), forget(r, m, 0), forget(r, (m + 1) & 31, 0);
    int atomic = (word & 0x3f000000) == 0x08000000 || (word & 0x3f200c00) == 0x38200000;
    if (!atomic) forget(r, n, 1);
}

/* Follow one instruction. */
static void follow_step(integers *r, uint32_t word) {
    int wide = word >> 31;
    if ((word & 0x0a000000) == 0x08000000) step_access(r, word);
    else if ((word & 0x1f800000) == 0x11000000 || (word & 0x1f000000) == 0x0b000000) step_sum(r, word, wide);
    else if ((word & 0x1f000000) == 0x0a000000) step_logic(r, word, wide);
    else if ((word & 0x7f000000) == 0x1b000000) step_product(r, word, wide);
    else if ((word & 0x1f800000) == 0x12800000) step_wide_move(r, word, wide);
    else if ((word & 0x3f800000) == 0x13000000 && (word >> 29 & 3) != 1 && has_value(r, bits(word, 5, 5), 0)) {
        uint64_t field = bit_field(read_register(r, bits(word, 5, 5), 0), bits(word, 16, 6), bits(word, 10, 6), wide,
                                   bits(word, 29, 2) == 0);
        write_register(r, bits(word, 0, 5), 0, field, wide);
    } else if ((word & 0x0e000000) == 0x0e000000) { /* vectors: only moves and conversions write these registers */
        if ((word & 0xbfe0ec00) == 0x0e002c00 || (word & 0x5f000000) == 0x1e000000) forget(r, bits(word, 0, 5), 0);
    } else if ((word & 0xfffff01f) == 0xd503201f) { /* hints: those of pointer authentication */
        forget(r, 17, 0), forget(r, 30, 0);
    } else forget(r, bits(word, 0, 5), 1);
}

#endif
