"""Micro-kernels of f32 convolution and matrix product: register tiles, packing, how a tile begins and ends."""
