/* Parses /proc/cpuinfo. */
#include "cpuinfo.h"

#include "internal.h"
#include "platform.h"
#include "text.h"

/* What /proc/cpuinfo has shown about the current processor. */
struct cpuinfo_block {
    int64_t cpu, implementer, variant, part, revision; /* -1: not seen */
    int64_t vendor, family, model;
    unsigned without_part; /* earlier processors without a part of their own */
};

static bool within(int64_t value, int64_t highest) { return value >= 0 && value <= highest; }

static void clear_block(struct cpuinfo_block *block) {
    block->cpu = block->implementer = block->variant = block->part = block->revision = -1;
    block->vendor = block->family = block->model = -1;
}

/* Report the processor that ends here, and reset the block for the next one. */
static void finish_block(const struct cpuinfo_reader *reader, struct cpuinfo_block *block) {
    bool has_part = within(block->implementer, 0xFF) && within(block->part, 0xFFF) && block->variant <= 0xF &&
                    block->revision <= 0xF;
    if (has_part && block->cpu >= 0) {
        uint32_t variant = block->variant < 0 ? 0 : (uint32_t)block->variant;
        uint32_t revision = block->revision < 0 ? 0 : (uint32_t)block->revision;
        uint32_t midr = (uint32_t)block->implementer << 24 | variant << 20 | 0xFu << 16 | (uint32_t)block->part << 4 |
                        revision;
        if (block->without_part) reader->shared(reader->context, midr);
        else reader->part(reader->context, (unsigned)block->cpu, midr);
        block->without_part = 0;
    } else if (block->cpu >= 0) {
        block->without_part++;
    }
    if (block->vendor > 0 && within(block->family, 0xFFFF) && within(block->model, 0xFFFF)) {
        struct x86_identity identity = {(uint8_t)block->vendor, (uint16_t)block->family, (uint16_t)block->model};
        reader->x86(reader->context, identity);
    }
    clear_block(block);
}

/* Store the value of one "key : value" line in the block. */
static void store_line(const struct cpuinfo_reader *reader, struct cpuinfo_block *block, const char *key,
                       size_t key_bytes, const char *text, size_t text_bytes) {
    int64_t value = text_number(text, text_bytes);
    if (same_text("processor", key, key_bytes)) {
        finish_block(reader, block);
        block->cpu = value < MAVCG_CPUS ? value : -1;
        if (block->cpu >= 0 && reader->listed) reader->listed(reader->context, (unsigned)value);
    } else if (same_text("CPU implementer", key, key_bytes)) {
        block->implementer = value;
    } else if (same_text("CPU variant", key, key_bytes)) {
        block->variant = value;
    } else if (same_text("CPU part", key, key_bytes)) {
        block->part = value;
    } else if (same_text("CPU revision", key, key_bytes)) {
        block->revision = value;
    } else if (MAVCG_X86_SOURCES && same_text("vendor_id", key, key_bytes)) {
        block->vendor = same_text("GenuineIntel", text, text_bytes)   ? X86_INTEL
                        : same_text("AuthenticAMD", text, text_bytes) ? X86_AMD
                                                                      : X86_OTHER;
    } else if (MAVCG_X86_SOURCES && same_text("cpu family", key, key_bytes)) {
        block->family = value;
    } else if (MAVCG_X86_SOURCES && same_text("model", key, key_bytes)) {
        block->model = value;
    }
}

MAVCG_PRIVATE void read_cpuinfo(const char *root, const struct cpuinfo_reader *reader) {
    struct reader in;
    struct cpuinfo_block block;
    if (!open_reader(&in, root, "/proc/cpuinfo")) return;
    clear_block(&block);
    block.without_part = 0;
    for (int c = next_char(&in); c != END_OF_FILE;) {
        char key[24], value[24];
        size_t key_bytes = read_token(&in, &c, ":", key, sizeof key), value_bytes = 0;
        if (c == ':') {
            c = next_char(&in);
            value_bytes = read_token(&in, &c, "", value, sizeof value);
            store_line(reader, &block, key, key_bytes, value, value_bytes);
        }
        if (c == '\n') c = next_char(&in);
    }
    finish_block(reader, &block);
    close_file(in.fd);
}
