"""`make demo`: both pipelines, as a user would run them, one command after another.

A program, from its profile to a library with a version of each hot function per core; then a network, from its ONNX
file to an engine library. What is not installed is said and left out.
"""

import demo_model
import demo_program
from demo_steps import say


def main() -> None:
    """Both walks."""
    say("--- A program: examples/edge_app")
    demo_program.walk()
    say("--- A model: examples/small_cnn")
    demo_model.walk()
    say("Next: mavcg inspect examples/small_cnn/build/libsmall_cnn.so; mavcg cores; docs/models.md; README.md")


if __name__ == "__main__":
    main()
