/* The blocks of the code that runs, in a hash table by address. */
#include <stdlib.h>
#include <string.h>

#include "simulate.h"

static uint32_t slot_of(const sim *s, uint64_t address) {
    return (uint32_t)((address >> 2) * 0x9E3779B97F4A7C15ull >> 40) & (s->block_slots - 1);
}

sim_block *block_find(const sim *s, uint64_t address, uint32_t bytes) {
    for (uint32_t at = slot_of(s, address); s->blocks[at] != NULL; at = (at + 1) & (s->block_slots - 1))
        if (s->blocks[at]->address == address && s->blocks[at]->bytes == bytes) return s->blocks[at];
    return NULL;
}

static int grow_blocks(sim *s) {
    sim_block **old = s->blocks;
    uint32_t count = s->block_slots;
    sim_block **larger = calloc((size_t)count * 2, sizeof *larger);
    if (larger == NULL) return 0;
    s->blocks = larger;
    s->block_slots = count * 2;
    for (uint32_t n = 0; n < count; n++)
        if (old[n] != NULL) {
            uint32_t at = slot_of(s, old[n]->address);
            while (s->blocks[at] != NULL) at = (at + 1) & (s->block_slots - 1);
            s->blocks[at] = old[n];
        }
    free(old);
    return 1;
}

sim_block *block_new(uint64_t address, uint32_t bytes, const sim_row *rows, uint32_t count) {
    sim_block *block = calloc(1, sizeof *block);
    sim_row *copy = malloc((count ? count : 1) * sizeof *copy);
    uint32_t *marked = malloc((count ? count : 1) * sizeof *marked), marked_count = 0;
    if (block == NULL || copy == NULL || marked == NULL) {
        free(block);
        free(copy);
        free(marked);
        return NULL;
    }
    memcpy(copy, rows, count * sizeof *copy);
    for (uint32_t n = 0; n < count; n++)
        if (rows[n].memory || rows[n].flow != SIM_NEXT) marked[marked_count++] = n;
    *block = (sim_block){address, bytes, count, marked_count, copy, marked, NULL, NULL};
    return block;
}

void block_delete(sim_block *block) {
    if (block == NULL) return;
    free(block->rows);
    free(block->marked);
    free(block);
}

int sim_add_block(sim *s, uint64_t address, uint32_t bytes, const sim_row *rows, uint32_t count) {
    if (s->block_count * 2 >= s->block_slots && !grow_blocks(s)) return 0;
    sim_block *block = block_new(address, bytes, rows, count);
    if (block == NULL) return 0;
    uint32_t at = slot_of(s, address);
    while (s->blocks[at] != NULL) at = (at + 1) & (s->block_slots - 1);
    s->blocks[at] = block;
    s->block_count++;
    return 1;
}
