"""All operators, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from mavcg.ops import eight_bit, elementwise, layouts, linear, quantization, reduction, shape, spatial
from mavcg.ops.op import Operator

# Each family of operators is a module with a tuple OPS; a new family is added here.
FAMILIES = (spatial, linear, elementwise, reduction, shape, quantization, eight_bit, layouts)

OPS: Mapping[str, Operator] = MappingProxyType({op.name: op for family in FAMILIES for op in family.OPS})
