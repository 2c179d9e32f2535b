"""Colours of text in drawings that mavcg writes as SVG."""

INK, FAINT = "#1b1f23", "#6a737d"
