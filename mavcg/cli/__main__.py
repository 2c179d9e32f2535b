"""`python -m mavcg.cli`: the mavcg command where its script is not on PATH."""

from mavcg.cli import main

main()
