"""Direct families of convolution primitives: loops over the image, with or without register tiles."""
