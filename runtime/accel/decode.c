/* Decodes instructions and checks every field. */
#include "decode.h"

#include <stdio.h>
#include <string.h>

#include "image.h"

static uint32_t word_at(const unsigned char *code, uint32_t index) {
    uint32_t word;
    memcpy(&word, code + 4u * (size_t)index, sizeof word);
    return word;
}

static const struct form *find_form(uint32_t opcode, uint32_t mode) {
    for (size_t i = 0; i < FORM_COUNT; i++)
        if (forms[i].opcode == opcode && forms[i].mode == mode) return &forms[i];
    return NULL;
}

static uint32_t mask_of(uint32_t bits) { return bits == 32 ? UINT32_MAX : (1u << bits) - 1; }

static bool take_fields(const unsigned char *code, struct instruction *made, char *why) {
    const struct form *form = made->form;
    uint32_t used[32] = {UINT32_MAX};
    for (uint32_t i = 0; i < form->field_count; i++) {
        const struct field *field = &form->fields[i];
        uint32_t mask = mask_of(field->bits), raw = word_at(code, field->word) >> field->bit & mask;
        int64_t value = raw;
        if (field->is_signed && raw >> (field->bits - 1)) value -= (int64_t)mask + 1;
        if (value < field->least) {
            snprintf(why, MESSAGE_BYTES, "%s %s=%lld, which is at least %lld", form->name, field->name,
                     (long long)value, (long long)field->least);
            return false;
        }
        made->values[i] = value;
        used[field->word] |= mask << field->bit;
    }
    for (uint32_t i = 1; i < form->words; i++)
        if (word_at(code, i) & ~used[i]) {
            snprintf(why, MESSAGE_BYTES, "%s has unused bits set in word %u", form->name, (unsigned)i);
            return false;
        }
    return true;
}

/* Check the constraints between fields. Returns NULL, or a description of the fault. */
static const char *check_meaning(const struct instruction *one) {
    const int64_t *v = one->values;
    uint32_t own = 1u << one->form->opcode;
    if ((one->wait | one->signal) & own) return "waits for or signals its own unit";
    switch (one->form->kind) {
    case MISC_START:
        return v[MISC_START_VERSION] == ISA_VERSION ? NULL : "is of another version of the instruction set";
    case CONV_TRANSPOSED:
        if (v[CONV_TRANSPOSED_OUTSIDE]) return "has a value outside, where nothing is";
        return v[CONV_TRANSPOSED_LO] <= v[CONV_TRANSPOSED_HI] ? NULL : "has lo above hi";
    case CONV_DENSE: return v[CONV_DENSE_LO] <= v[CONV_DENSE_HI] ? NULL : "has lo above hi";
    case CONV_DEPTHWISE:
        if (v[CONV_DEPTHWISE_CHANNELS] != v[CONV_DEPTHWISE_OUT_CHANNELS]) return "has other channels than its input";
        if (v[CONV_DEPTHWISE_ACCUMULATE] || v[CONV_DEPTHWISE_PARTIAL]) return "has no sums over input channels";
        return v[CONV_DEPTHWISE_LO] <= v[CONV_DEPTHWISE_HI] ? NULL : "has lo above hi";
    case POOL_MAX: return v[POOL_MAX_LO] <= v[POOL_MAX_HI] ? NULL : "has lo above hi";
    case POOL_AVERAGE: return v[POOL_AVERAGE_LO] <= v[POOL_AVERAGE_HI] ? NULL : "has lo above hi";
    case MISC_ELTWISE:
        if (v[MISC_ELTWISE_OP] > 5) return "has an operation above 5";
        if ((v[MISC_ELTWISE_MULTIPLIER] && v[MISC_ELTWISE_LEFT]) ||
            (v[MISC_ELTWISE_SECOND_MULTIPLIER] && v[MISC_ELTWISE_SECOND_LEFT]))
            return "has a multiplier and a shift to the left for one operand";
        return v[MISC_ELTWISE_LO] <= v[MISC_ELTWISE_HI] ? NULL : "has lo above hi";
    case MISC_UPSAMPLE:
        if (v[MISC_UPSAMPLE_PHASE_ROW] >= v[MISC_UPSAMPLE_FACTOR_ROWS] ||
            v[MISC_UPSAMPLE_PHASE_COLUMN] >= v[MISC_UPSAMPLE_FACTOR_COLUMNS])
            return "has a phase of a whole block";
        return v[MISC_UPSAMPLE_LO] <= v[MISC_UPSAMPLE_HI] ? NULL : "has lo above hi";
    case MISC_REORGANISE: return v[MISC_REORGANISE_LO] <= v[MISC_REORGANISE_HI] ? NULL : "has lo above hi";
    default: return NULL;
    }
}

size_t decode(const unsigned char *code, size_t left, struct instruction *made, char *why) {
    if (left < 4) {
        snprintf(why, MESSAGE_BYTES, "the code ends within a word");
        return 0;
    }
    uint32_t head = word_at(code, 0);
    uint32_t opcode = head & 15, mode = head >> 4 & 15, words = head >> 8 & 31;
    made->form = find_form(opcode, mode);
    if (!made->form || words != made->form->words || head >> 23) {
        snprintf(why, MESSAGE_BYTES, "opcode %u, mode %u, length %u is no instruction", (unsigned)opcode,
                 (unsigned)mode, (unsigned)words);
        return 0;
    }
    if (left < 4u * (size_t)words) {
        snprintf(why, MESSAGE_BYTES, "the code ends within %s", made->form->name);
        return 0;
    }
    made->wait = head >> 13 & 31;
    made->signal = head >> 18 & 31;
    if (!take_fields(code, made, why)) return 0;
    const char *wrong = check_meaning(made);
    if (wrong) {
        snprintf(why, MESSAGE_BYTES, "%s %s", made->form->name, wrong);
        return 0;
    }
    return 4u * (size_t)words;
}
