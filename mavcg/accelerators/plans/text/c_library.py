"""The C at the beginning of every generated file: copies of tiles, and the operators as plain loops.

A user's own operators can replace these (docs/plan-text.md).
"""

HEAD = """\
#include <stdint.h>
#include <string.h>

typedef @INPUT@ input_t;
typedef @WEIGHT@ weight_t;
typedef @OUTPUT@ output_t;
typedef @PSUM@ psum_t; /* sums, on chip and off chip */

/* One CONV, or pooling. Tiles are dense and row-major: in [ic][ih][iw] without its padding, wt [oc][ic][kh][kw],
   ot [oc][oh][ow]. add: onto what ot holds. */
struct plan_conv {
    int oc, ic, oh, ow, ih, iw, kh, kw;
    int stride_h, stride_w, dilation_h, dilation_w;
    int pad_left, pad_above;
    int add;
};

/* A plan may call these many thousand times: one copy each will do. */
#ifdef __GNUC__
#define PLAN_APART static __attribute__((noinline))
#else
#define PLAN_APART static
#endif

/* sum + a * b; whole numbers wrap round. */
@MULTIPLY_ADD@

#ifdef PLAN_RUNTIME
#include PLAN_RUNTIME
#endif

"""

CONV = """\
#ifndef PLAN_CONV
#define PLAN_CONV plan_conv_by_loops
PLAN_APART void plan_conv_by_loops(const input_t *in, const weight_t *wt, psum_t *ot, const struct plan_conv *p) {
    if (!p->add) memset(ot, 0, sizeof(psum_t) * p->oc * p->oh * p->ow);
    for (int oc = 0; oc < p->oc; oc++)
        for (int ic = 0; ic < p->ic; ic++)
            for (int kh = 0; kh < p->kh; kh++)
                for (int kw = 0; kw < p->kw; kw++) {
                    weight_t w = wt[((oc * p->ic + ic) * p->kh + kh) * p->kw + kw];
                    for (int oh = 0; oh < p->oh; oh++) {
                        int row = oh * p->stride_h + kh * p->dilation_h - p->pad_above;
                        if (row < 0 || row >= p->ih) continue;
                        for (int ow = 0; ow < p->ow; ow++) {
                            int column = ow * p->stride_w + kw * p->dilation_w - p->pad_left;
                            if (column < 0 || column >= p->iw) continue;
                            psum_t *sum = &ot[(oc * p->oh + oh) * p->ow + ow];
                            *sum = MULTIPLY_ADD(*sum, in[(ic * p->ih + row) * p->iw + column], w);
                        }
                    }
                }
}
#endif

"""

FC = """\
/* A CONV of one pixel through a 1x1 kernel: a matrix times a vector. */
#ifndef PLAN_FC
#define PLAN_FC plan_fc_by_loops
PLAN_APART void plan_fc_by_loops(const input_t *in, const weight_t *wt, psum_t *ot, const struct plan_conv *p) {
    for (int oc = 0; oc < p->oc; oc++) {
        psum_t sum = p->add ? ot[oc] : 0;
        for (int ic = 0; ic < p->ic; ic++) sum = MULTIPLY_ADD(sum, in[ic], wt[oc * p->ic + ic]);
        ot[oc] = sum;
    }
}
#endif

"""

_POOL = """\
#ifndef @HOOK@
#define @HOOK@ @NAME@
PLAN_APART void @NAME@(const input_t *in, psum_t *ot, const struct plan_conv *p) {
    for (int c = 0; c < p->oc; c++)
        for (int oh = 0; oh < p->oh; oh++)
            for (int ow = 0; ow < p->ow; ow++) {
                psum_t found = @EMPTY@;
                int count = 0;
                for (int kh = 0; kh < p->kh; kh++)
                    for (int kw = 0; kw < p->kw; kw++) {
                        int row = oh * p->stride_h + kh * p->dilation_h - p->pad_above;
                        int column = ow * p->stride_w + kw * p->dilation_w - p->pad_left;
                        if (row < 0 || row >= p->ih || column < 0 || column >= p->iw) continue;
                        psum_t value = in[(c * p->ih + row) * p->iw + column];
                        @STEP@
                        count++;
                    }
                @END@
            }
}
#endif

"""


def pool(maximum: bool, lowest: str) -> str:
    """Return the C of a pooling. lowest: C expression of the smallest value, the maximum of an empty window."""
    names = {
        "@HOOK@": "PLAN_MAXPOOL" if maximum else "PLAN_AVGPOOL",
        "@NAME@": "plan_maxpool_by_loops" if maximum else "plan_avgpool_by_loops",
        "@EMPTY@": lowest if maximum else "0",
        "@STEP@": "if (!count || value > found) found = value;" if maximum else "found += value;",
        "@END@": f"ot[(c * p->oh + oh) * p->ow + ow] = {'found' if maximum else 'count ? found / count : 0'};",
    }
    text = _POOL
    for name, value in names.items():
        text = text.replace(name, value)
    return text


RELU = """\
#ifndef PLAN_RELU
#define PLAN_RELU plan_relu_by_loop
PLAN_APART void plan_relu_by_loop(psum_t *ot, int count) {
    for (int i = 0; i < count; i++) ot[i] = ot[i] > 0 ? ot[i] : 0;
}
#endif

"""

# A tile is contiguous only if it spans whole rows and columns; a tile of 65 channels of figure 7.1 is 65 runs.
COPIES = """\
/* `rows` rows of `columns` elements in each of n1 x n0 planes, from a tensor to a dense tile; pitches in elements. */
PLAN_APART void load(void *tile, const void *tensor, size_t item, int n0, int64_t pitch0, int n1, int64_t pitch1,
                     int rows, int columns, int64_t pitch) {
    char *to = tile;
    if (columns == pitch) { /* whole rows follow each other */
        columns *= rows;
        rows = 1;
    }
    for (int i = 0; i < n0; i++)
        for (int j = 0; j < n1; j++)
            for (int row = 0; row < rows; row++) {
                memcpy(to, (const char *)tensor + item * (i * pitch0 + j * pitch1 + row * pitch), item * columns);
                to += item * columns;
            }
}

"""

STORES = """\
/* A dense tile of sums, [channels][rows][columns], to where it lies in a tensor. */
PLAN_APART void @NAME@(@TYPE@ *tensor, const psum_t *tile, int channels, int64_t plane, int rows,
                   int columns, int64_t pitch) {
    for (int c = 0; c < channels; c++)
        for (int row = 0; row < rows; row++)
            for (int column = 0; column < columns; column++)
                tensor[c * plane + row * pitch + column] = (@TYPE@)*tile++;
}

"""
