/* /proc/cpuinfo of arm64: per CPU a "processor : N" line and its "CPU implementer", "CPU variant" and "CPU part".
 *
 * Kernels before 3.19 list all processors and then print these once, for the CPU that reads the file (Linux 3.10
 * arch/arm64/kernel/setup.c, c_show): such a shared part says nothing about the other CPUs. */

struct cpuinfo_reader {
    void (*listed)(void *context, unsigned cpu);              /* a processor line; may be NULL */
    void (*part)(void *context, unsigned cpu, uint32_t midr); /* a CPU and its own part */
    void (*shared)(void *context, uint32_t midr);             /* one part after several processors */
    void (*other)(void *context);                             /* not an Arm machine ("vendor_id"); may be NULL */
    void *context;
};

struct cpuinfo_block {
    int64_t cpu, implementer, variant, part, revision; /* -1: not said */
    unsigned without_part;                              /* processors before this one that had no part */
};

MAVCG_STATIC void finish_block(const struct cpuinfo_reader *to, struct cpuinfo_block *block) {
    int has_part = block->implementer >= 0 && block->implementer <= 0xFF && block->part >= 0 && block->part <= 0xFFF &&
                   block->variant <= 0xF && block->revision <= 0xF;
    if (has_part && block->cpu >= 0) {
        uint32_t variant = block->variant < 0 ? 0 : (uint32_t)block->variant;
        uint32_t revision = block->revision < 0 ? 0 : (uint32_t)block->revision;
        uint32_t midr =
            (uint32_t)block->implementer << 24 | variant << 20 | 0xFu << 16 | (uint32_t)block->part << 4 | revision;
        if (block->without_part) to->shared(to->context, midr);
        else to->part(to->context, (unsigned)block->cpu, midr);
        block->without_part = 0;
    } else if (block->cpu >= 0) {
        block->without_part++;
    }
    block->cpu = block->implementer = block->variant = block->part = block->revision = -1;
}

/* One "key : value" line into the block. A value that is not a number alone counts as not said. */
MAVCG_STATIC void take_line(const struct cpuinfo_reader *to, struct cpuinfo_block *block, const char *key, size_t bytes,
                            int64_t value) {
    if (same_text("processor", key, bytes)) {
        finish_block(to, block);
        block->cpu = value < MAVCG_CPUS ? value : -1;
        if (block->cpu >= 0 && to->listed) to->listed(to->context, (unsigned)value);
    } else if (same_text("CPU implementer", key, bytes)) {
        block->implementer = value;
    } else if (same_text("CPU variant", key, bytes)) {
        block->variant = value;
    } else if (same_text("CPU part", key, bytes)) {
        block->part = value;
    } else if (same_text("CPU revision", key, bytes)) {
        block->revision = value;
    } else if (same_text("vendor_id", key, bytes) && to->other) {
        to->other(to->context);
    }
}

MAVCG_STATIC void read_cpuinfo(const char *root, const struct cpuinfo_reader *to) {
    struct reader in;
    struct cpuinfo_block block = {-1, -1, -1, -1, -1, 0};
    if (!open_reader(&in, root, "/proc/cpuinfo")) return;
    for (int c = next_char(&in); c != END_OF_FILE;) {
        char key[24];
        size_t bytes = 0;
        for (; c != ':' && c != '\n' && c != END_OF_FILE; c = next_char(&in))
            if (bytes < sizeof key) key[bytes++] = (char)c;
        while (bytes && is_blank(key[bytes - 1])) bytes--;
        int64_t value = -1;
        if (c == ':') {
            do c = next_char(&in);
            while (is_blank(c));
            value = read_number(&in, &c);
            while (is_blank(c) || c == '\r') c = next_char(&in);
            if (c != '\n' && c != END_OF_FILE) value = -1;
            take_line(to, &block, key, bytes, value);
        }
        while (c != '\n' && c != END_OF_FILE) c = next_char(&in);
        if (c == '\n') c = next_char(&in);
    }
    finish_block(to, &block);
    close_file(in.fd);
}
