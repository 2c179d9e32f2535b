/* Depth-first search for offsets of buffers below a capacity: one round, with one static order of the buffers.

   Buffers are placed by increasing (offset, rank), each at the lowest offset above the placed buffers that share a
   section with it. Every solution in which no buffer can be moved down has this form, so no solution is lost (canonical
   solutions: Moffitt, "MiniMalloc", ASPLOS 2023). A branch ends if
   - a section cannot take its buffers: sorted by lowest offset, the buffers from one of them on need more room than is
     left;
   - a buffer that was passed over has no unplaced buffer left to lie on;
   - a buffer that is not placed would have fitted below the next one.
   After each placement the remaining buffers fall into components that share no section; each component is solved by
   itself.

   No libc is needed: the caller provides all memory. */
#include <stdint.h>

typedef struct {
    int64_t count, sections, capacity, nodes_left, nodes;
    const int32_t *begin, *end, *rank;                /* sections [begin, end) of each buffer; its rank in the order */
    const int64_t *size;
    const int32_t *neighbours, *neighbours_begin;     /* for each buffer, the buffers that share a section with it */
    int64_t *lowest, *offset, *sums;                  /* indexed by buffer, by buffer, and by section */
    int8_t *placed;
    double *section_failures, *buffer_failures;       /* incremented; they determine the orders of later rounds */
    int32_t *stack; int64_t stack_size, stack_used;   /* temporary lists of buffers */
    int64_t *trail; int64_t trail_size, trail_used;   /* undo log of pairs: buffer, its previous lowest offset */
} Search;

enum { IMPOSSIBLE = 0, FOUND = 1, OUT_OF_NODES = -1, OUT_OF_MEMORY = -2 };

static int32_t *take(Search *s, int64_t count)
{
    int32_t *list = s->stack + s->stack_used;
    if (s->stack_used + count > s->stack_size) return 0;
    s->stack_used += count;
    return list;
}

static int raise_lowest(Search *s, int32_t buffer, int64_t lowest)
{
    if (s->trail_used + 2 > s->trail_size) return 0;
    s->trail[s->trail_used++] = buffer;
    s->trail[s->trail_used++] = s->lowest[buffer];
    s->lowest[buffer] = lowest;
    return 1;
}

static void restore(Search *s, int64_t mark)
{
    while (s->trail_used > mark) {
        s->trail_used -= 2;
        s->lowest[s->trail[s->trail_used]] = s->trail[s->trail_used + 1];
    }
}

static int before(const Search *s, int32_t a, int32_t b)
{
    return s->lowest[a] < s->lowest[b] || (s->lowest[a] == s->lowest[b] && s->rank[a] < s->rank[b]);
}

static void sort(const Search *s, int32_t *list, int64_t count)
{
    for (int64_t k = 1; k < count; k++) {             /* insertion sort: few buffers have moved since the last sort */
        int32_t buffer = list[k];
        int64_t at = k;
        for (; at > 0 && before(s, buffer, list[at - 1]); at--) list[at] = list[at - 1];
        list[at] = buffer;
    }
}

/* Return 0 if some section cannot take the listed buffers, which are sorted. */
static int fits(Search *s, const int32_t *list, int64_t count)
{
    for (int64_t k = 0; k < count; k++)
        for (int32_t i = s->begin[list[k]]; i < s->end[list[k]]; i++) s->sums[i] = 0;
    for (int64_t k = count - 1; k >= 0; k--) {
        int32_t buffer = list[k];
        for (int32_t i = s->begin[buffer]; i < s->end[buffer]; i++) {
            s->sums[i] += s->size[buffer];
            if (s->lowest[buffer] + s->sums[i] > s->capacity) {
                s->section_failures[i] += 1;
                s->buffer_failures[buffer] += 1;
                return 0;
            }
        }
    }
    return 1;
}

/* True if a buffer was passed over: it comes before the last placed one in the order (offset, rank), so that it can
   only be placed on top of a buffer that is still to be placed. */
static int passed_over(const Search *s, int32_t buffer, int64_t last_offset, int32_t last_rank)
{
    return s->lowest[buffer] < last_offset || (s->lowest[buffer] == last_offset && s->rank[buffer] <= last_rank);
}

static int raise_passed_over(Search *s, int32_t *list, int64_t count, int64_t last_offset, int32_t last_rank)
{
    int changed = 1, any = 0;
    while (changed) {
        changed = 0;
        for (int64_t k = 0; k < count; k++) {
            int32_t buffer = list[k];
            int64_t least = INT64_MAX;
            if (!passed_over(s, buffer, last_offset, last_rank)) continue;
            for (int32_t i = s->neighbours_begin[buffer]; i < s->neighbours_begin[buffer + 1]; i++) {
                int32_t other = s->neighbours[i];
                if (s->placed[other]) continue;
                int64_t from = s->lowest[other] < last_offset ? last_offset : s->lowest[other];
                if (from + s->size[other] < least) least = from + s->size[other];
            }
            /* No buffer is left to lie on; or the offset is too high, as when two passed-over buffers have only each
               other to lie on. */
            if (least == INT64_MAX || least + s->size[buffer] > s->capacity) return IMPOSSIBLE;
            if (least > s->lowest[buffer]) {
                if (!raise_lowest(s, buffer, least)) return OUT_OF_MEMORY;
                changed = any = 1;
            }
        }
    }
    if (any) sort(s, list, count);
    return FOUND;
}

static int place_all(Search *s, int32_t *list, int64_t count, int64_t last_offset, int32_t last_rank);

/* Solve each component of the listed buffers, which are sorted. */
static int place_components(Search *s, int32_t *list, int64_t count, int64_t last_offset, int32_t last_rank)
{
    int64_t mark = s->stack_used, borders = 0, crossing = 0;
    int32_t first = INT32_MAX, behind = 0;
    int result = FOUND;
    for (int64_t k = 0; k < count; k++) {
        if (s->begin[list[k]] < first) first = s->begin[list[k]];
        if (s->end[list[k]] > behind) behind = s->end[list[k]];
    }
    if (!count) return FOUND;
    for (int32_t i = first; i <= behind; i++) s->sums[i] = 0;
    for (int64_t k = 0; k < count; k++) {             /* running sum: buffers across the border before section i */
        s->sums[s->begin[list[k]] + 1]++;
        s->sums[s->end[list[k]]]--;
    }
    int32_t *border = take(s, behind - first + 1);
    int32_t *part = take(s, count);
    if (!border || !part) { s->stack_used = mark; return OUT_OF_MEMORY; }
    for (int32_t i = first + 1; i <= behind; i++) {
        crossing += s->sums[i];
        if (!crossing) border[borders++] = i;
    }
    if (borders == 1) {
        s->stack_used = mark;
        return place_all(s, list, count, last_offset, last_rank);
    }
    for (int64_t k = 0; k < borders && result == FOUND; k++) {
        int64_t size = 0;
        for (int64_t j = 0; j < count; j++)
            if (s->begin[list[j]] >= (k ? border[k - 1] : first) && s->begin[list[j]] < border[k]) part[size++] = list[j];
        if (size) result = place_all(s, part, size, last_offset, last_rank);
    }
    s->stack_used = mark;
    return result;
}

static int place_next(Search *s, const int32_t *list, int64_t count, int32_t *rest, int64_t k, int *carries)
{
    int32_t buffer = list[k];
    int64_t top = s->lowest[buffer] + s->size[buffer], left = 0;
    s->placed[buffer] = 1;
    s->offset[buffer] = s->lowest[buffer];
    *carries = 0;
    for (int32_t i = s->neighbours_begin[buffer]; i < s->neighbours_begin[buffer + 1]; i++) {
        int32_t other = s->neighbours[i];
        if (s->placed[other]) continue;
        *carries = 1;
        if (s->lowest[other] < top && !raise_lowest(s, other, top)) return OUT_OF_MEMORY;
    }
    for (int64_t j = 0; j < count; j++)
        if (j != k) rest[left++] = list[j];
    sort(s, rest, left);
    if (!fits(s, rest, left)) return IMPOSSIBLE;
    return place_components(s, rest, left, s->offset[buffer], s->rank[buffer]);
}

static int place_all(Search *s, int32_t *list, int64_t count, int64_t last_offset, int32_t last_rank)
{
    int64_t stack_mark = s->stack_used, mark = s->trail_used, least_top = INT64_MAX;
    int32_t *rest = take(s, count);
    int result;
    if (!rest) return OUT_OF_MEMORY;
    if (s->nodes_left-- <= 0) { s->stack_used = stack_mark; return OUT_OF_NODES; }
    s->nodes++;
    result = raise_passed_over(s, list, count, last_offset, last_rank);
    if (result == FOUND && !fits(s, list, count)) result = IMPOSSIBLE;
    if (result != FOUND) goto end;
    for (int64_t k = 0; k < count; k++)
        if (s->lowest[list[k]] + s->size[list[k]] < least_top) least_top = s->lowest[list[k]] + s->size[list[k]];
    result = IMPOSSIBLE;
    for (int64_t k = 0; k < count && s->lowest[list[k]] < least_top; k++) {
        int64_t before_this = s->trail_used;
        int carries;
        if (passed_over(s, list[k], last_offset, last_rank)) continue;
        result = place_next(s, list, count, rest, k, &carries);
        if (result == FOUND) { s->stack_used = stack_mark; return FOUND; }
        for (int64_t j = 0; j < count; j++) s->placed[list[j]] = 0;
        restore(s, before_this);
        if (result != IMPOSSIBLE || !carries) break;  /* a buffer that carries no other does not hinder any */
    }
end:
    restore(s, mark);
    s->stack_used = stack_mark;
    return result;
}

/* Search once. list: all buffers, by rank. Returns FOUND with the offsets, IMPOSSIBLE if there is no solution,
   OUT_OF_MEMORY or OUT_OF_NODES. Memory in elements: stack 2 * count^2 + (count + 2) * (sections + 2), sums sections +
   2; trail grows with the search. */
__attribute__((visibility("default"))) int mavcg_place_buffers(Search *search, int32_t *list)
{
    search->stack_used = search->trail_used = search->nodes = 0;
    for (int64_t k = 0; k < search->count; k++) {
        search->lowest[k] = 0;
        search->placed[k] = 0;
    }
    return place_components(search, list, search->count, -1, -1);
}
