"""The kn2 family of convolution primitives: K x K products of one tap's weights with the image, shifted and added."""
