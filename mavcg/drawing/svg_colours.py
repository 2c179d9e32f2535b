"""The colours of text in pictures that are written as SVG by hand."""

INK, FAINT = "#1b1f23", "#6a737d"
