/* Parses /proc/cpuinfo. */
#include "cpuinfo.h"

#include "internal.h"
#include "platform.h"
#include "text.h"

/* Hashes of keys and values (text.h). */
#define GENUINE_INTEL 0x23b133e6u /* GenuineIntel */
#define AUTHENTIC_AMD 0x4b3f2686u /* AuthenticAMD */
#define PROCESSOR_KEY 0xb0974cc7u /* processor */
#define VENDOR_KEY 0xc5cd9c69u    /* vendor_id */
#define FAMILY_KEY 0x13b74e55u    /* cpu family */
#define MODEL_KEY 0xb08b665au     /* model */

/* The fields of MIDR_EL1 that have lines. */
static const struct midr_field {
    uint32_t key;
    uint16_t mask;
    uint8_t shift;
} midr_fields[] = {
    {0x27bad92d, 0xFF, 24}, /* CPU implementer */
    {0x8b94ba40, 0xFFF, 4}, /* CPU part */
    {0x9c029e4a, 0xF, 20},  /* CPU variant */
    {0xa55aca3c, 0xF, 0},   /* CPU revision */
};
enum { FIELDS = sizeof midr_fields / sizeof midr_fields[0], REQUIRED = 0xFFF0 };

/* What /proc/cpuinfo has shown about the current processor. */
struct cpuinfo_block {
    int64_t cpu;                   /* NOT_A_NUMBER: no processor, or none that counts */
    uint32_t midr;                 /* its architecture field is that of all cores since Armv7 */
    unsigned without_part;         /* earlier processors without a part of their own */
    int64_t vendor, family, model; /* of recorded files; NOT_A_NUMBER: not seen */
};

static void start_block(struct cpuinfo_block *block, int64_t cpu) {
    block->cpu = cpu;
    block->midr = 0xF << 16;
    if (MAVCG_READS_RECORDS) block->vendor = block->family = block->model = NOT_A_NUMBER;
}

static void report_x86(const struct cpuinfo_reader *reader, const struct cpuinfo_block *block) {
    const int64_t highest = 0xFFFF;
    if (block->vendor < 0 || block->family < 0 || block->family > highest || block->model < 0 || block->model > highest)
        return;
    struct x86_identity identity = {(uint8_t)block->vendor, (uint16_t)block->family, (uint16_t)block->model};
    reader->x86(reader->context, identity);
}

static void store_x86_line(struct cpuinfo_block *block, uint32_t key, struct token value) {
    if (key == FAMILY_KEY) block->family = value.number;
    if (key == MODEL_KEY) block->model = value.number;
    if (key == VENDOR_KEY)
        block->vendor = value.hash == GENUINE_INTEL ? X86_INTEL : value.hash == AUTHENTIC_AMD ? X86_AMD : X86_OTHER;
}

/* Report the processor that ends here. */
static void finish_block(const struct cpuinfo_reader *reader, struct cpuinfo_block *block) {
    if (block->cpu >= 0) {
        block->without_part++;
        if (block->midr & REQUIRED) {
            reader->part(reader->context, (unsigned)block->cpu, block->midr, block->without_part > 1);
            block->without_part = 0;
        }
    }
    if (MAVCG_READS_RECORDS) report_x86(reader, block);
}

/* Store the value of one "key : value" line in the block. */
static void store_line(struct cpuinfo_block *block, uint32_t key, struct token value) {
    for (int number = 0; number < FIELDS; number++) {
        if (key != midr_fields[number].key) continue;
        if ((uint64_t)value.number > midr_fields[number].mask) block->cpu = NOT_A_NUMBER;
        block->midr |= (uint32_t)value.number << midr_fields[number].shift;
    }
    if (MAVCG_READS_RECORDS) store_x86_line(block, key, value);
}

/* True for the character after the last token of a line, '\n' or END_OF_FILE: no other end is as low. */
static bool is_line_end(int end) { return end <= '\n'; }

MAVCG_PRIVATE void read_cpuinfo(const struct mavcg_machine *machine, const struct cpuinfo_reader *reader) {
    struct reader in;
    struct cpuinfo_block block;
    if (!open_reader(&in, machine, "/proc/cpuinfo")) return;
    start_block(&block, NOT_A_NUMBER);
    block.without_part = 0;
    struct token key, value;
    do {
        key = value = read_token(&in);
        if (key.end == ':') value = read_token(&in);
        if (key.hash == PROCESSOR_KEY || key.end == END_OF_FILE) {
            finish_block(reader, &block);
            start_block(&block, value.number < MAVCG_CPUS ? value.number : NOT_A_NUMBER);
            if (MAVCG_READS_RECORDS && reader->listed && block.cpu >= 0)
                reader->listed(reader->context, (unsigned)block.cpu);
        }
        if (is_line_end(value.end)) store_line(&block, key.hash, value);
        while (!is_line_end(value.end)) value = read_token(&in);
    } while (key.end != END_OF_FILE);
    close_file(in.fd);
}
