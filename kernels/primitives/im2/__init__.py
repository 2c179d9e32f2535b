"""The im2 family of convolution primitives: a matrix of patches (im2col, im2row), then a matrix product."""
