/* Operands between guards, and what is in them. */

static int make_memory(struct memory *to, int64_t bytes) {
    int64_t size = (bytes + ALIGN - 1) / ALIGN * ALIGN + 2 * GUARD;
    void *at = NULL;
    if (posix_memalign(&at, ALIGN, (size_t)size)) return 0;
    to->whole = at;
    to->inner = to->whole + GUARD;
    to->bytes = bytes;
    memset(to->whole, FILLING, (size_t)size); /* floats of these bytes are large; and the pages are there from now on */
    return 1;
}

static int guards_hold(const struct memory *memory) {
    const uint8_t *after = memory->inner + memory->bytes;
    for (int i = 0; i < GUARD; i++)
        if (memory->whole[i] != FILLING || after[i] != FILLING) return 0;
    return 1;
}

/* Floats from -1 to 1, multiples of 2^-23: the same on every machine. Marsaglia, "Xorshift RNGs" (2003), 13, 7, 17. */
static void fill_randomly(struct memory *memory, uint64_t seed) {
    float *to = (float *)(void *)memory->inner;
    uint64_t state = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
    for (int64_t i = 0; i < memory->bytes / 4; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        to[i] = (float)((int32_t)(state >> 40) - (1 << 23)) / (float)(1 << 23);
    }
}

/* The counts and positions of sparse weights, over numbers that are there: as many blocks in each row of blocks, and as
 * far from one another. kernels/primitives/sparse/family.py has the form. */
static void fill_positions(struct memory *memory, const struct sparse *form) {
    int32_t *counts = (int32_t *)(void *)memory->inner;
    int32_t *entry = counts + form->blocks + 1;
    for (int64_t row = 0; row <= form->blocks; row++) counts[row] = (int32_t)(form->entries * row / form->blocks);
    for (int64_t row = 0; row < form->blocks; row++) {
        int64_t count = counts[row + 1] - counts[row];
        for (int64_t i = 0; i < count; i++, entry += 1 + form->rows)
            *entry = (int32_t)(i * form->terms / count * form->term_bytes);
    }
}

/* Bytes from -127 to 127, sums of a few thousand, words that make u8 of i8, and one factor that brings sums of so many
 * terms into 8 bits. kernels/primitives/eight_bit.py has the form. */
static void fill_quantised(struct memory *memory, const struct quantised *form, uint64_t seed) {
    int32_t *sums = (int32_t *)(void *)(memory->inner + form->sums_at);
    float *factors = (float *)(void *)(memory->inner + form->factors_at);
    uint64_t state = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
    for (int64_t i = 0; i < form->sums_at + form->sums; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        int32_t number = (int32_t)(state >> 40);
        if (i < form->sums_at) {
            memory->inner[i] = (uint8_t)(number % 255 - 127);
        } else {
            sums[i - form->sums_at] = number % 8192 - 4096;
        }
    }
    for (int64_t i = form->sums - form->flips; i < form->sums; i++) sums[i] = INT32_MIN + 0x808080;
    for (int64_t i = 0; i < form->factors; i++) factors[i] = 1.0f / (32.0f * (float)form->terms);
}

/* FNV-1a over 32-bit words. */
static uint64_t checksum(const struct memory *memory) {
    const uint32_t *words = (const uint32_t *)(const void *)memory->inner;
    uint64_t sum = UINT64_C(0xCBF29CE484222325);
    for (int64_t i = 0; i < memory->bytes / 4; i++) sum = (sum ^ words[i]) * UINT64_C(0x100000001B3);
    return sum;
}

static volatile uint64_t read_to;

static void read_all(const struct memory *memory) {
    const uint64_t *words = (const uint64_t *)(const void *)memory->inner;
    uint64_t sum = 0;
    for (int64_t i = 0; i < memory->bytes / 8; i += 2) sum += words[i]; /* a cache line holds several */
    read_to = sum;
}
