"""The fft family of convolution primitives: one-dimensional Fourier transforms along rows."""
