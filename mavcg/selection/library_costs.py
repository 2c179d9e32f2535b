"""What alternatives cost in a library: the engine's own ways beside all other primitives, by one scale.

The engine computes some primitives by itself, as conv2d nodes: it writes an image into the middle of the border that
the next convolution wants, and into its part of a concatenation. Any other primitive copies its image into a border,
writes densely, and is copied from there.

What the engine predicts of its own ways (predict/ways.py) knows the tiles and tasks that they are planned with, and
whatever the model of primitives says in milliseconds is of a fit on another machine. So that model says only how many
times as long as the node's implicit product (or depthwise loop) another primitive takes: by this, all that a node may
be computed by is on the scale of what is best known of that one, which is measured, or else predicted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.graph import Graph
from mavcg.passes.graph.layout_forms import is_entry
from mavcg.predict.ways import WORTH, Way
from mavcg.primitive import F32_BYTES, Layout
from mavcg.selection.choice import Alternative, Problem
from mavcg.selection.costs import MODELLED, Cost, CostProvider
from mavcg.selection.library import own_ways, primitive_of
from mavcg.selection.modelled import ModelledCosts
from mavcg.selection.network import NetworkNode

# Where two are nearer to each other than this the model does not know which is faster (docs/tuning-models.md): what is
# none of the engine's own ways has to be so much faster; less where it was measured, as any way but the usual one.
DOUBT, MEASURED_DOUBT = 1.3, 1 / WORTH
# Pools over columns of CHW and HCW go one by one: cycles of an element of a window.
PLANAR_POOL_CYCLES = 6.0

Predicted = Mapping[str, Mapping[str, float]]
