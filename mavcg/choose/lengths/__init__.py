"""Kernels for any lengths of a model's bounded dimensions, such as its tokens (docs/lengths.md).

A graph has fixed shapes, and lowering makes kernels for them. Here a model is read for a sample of lengths, and what
its graphs and kernels have in common becomes one program, whose lengths are counts (mavcg/graph/counts.py):

    sampled_graphs   the file for several lengths -> graphs that differ in lengths only, and the counts of all axes
        samples          for which lengths, and which count has the numbers that were seen there
        taken_lengths    the error for lengths that the file does not take
        same_graph       the comparison of two graphs
        axis_counts      rules of operators: how the axes of a result follow from those of its inputs
        resample_tables  tables of a Resize that follow from lengths become operators on these
        state_lengths    states that keep their shape at all lengths, and those that grow from run to run
        kept_slices      slices that take one part of a concat at some lengths only
        window_pads      the rule of SAME padding, and pad nodes whose pads follow from a length
        length_numbers   constants that follow from a length become operators on it
    any_length       these graphs, optimised, -> lowered to kernels for any lengths; the program gets its dimensions
        causal_masks     masks that a kernel reads become operators on places of queries and keys
        transposed_sides right sides of products whose columns lie apart by a length
        merged_steps     the same step of several lengths -> one step
        moved_parts      what has no place in another tensor that is the same at all lengths
        first_rows         by the first rows of work of its kernel for the longest lengths
        pixel_rows         the same, in other rows
        read_length        by a kernel that reads a length of the run
        run_words          by a kernel that reads lengths and strides of the run
        readable_numbers   which integers of a spec its kernel can read in a run
        run_views          where tensors lie in each other, and how far apart their rows are, as counts

Others call sampled_graphs, lower_any_length and count_lengths only.

Where the next thing goes:

- Operator whose result has other lengths than its inputs: axis_counts.py.
- Kernel for any lengths: first_rows.py if its outermost loop counts them, else read_length.py or readable_numbers.py.
"""
