"""Convolutions, matrix products and means of 8-bit integers: exact sums, requantized at the end."""
