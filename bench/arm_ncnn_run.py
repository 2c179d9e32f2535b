"""Run a network of ncnn's own benchmark in the emulated Python: `python -I arm_ncnn_run.py SITE PARAM SIDE`.

SITE: the folder of ncnn's wheel. SIDE: width and height of the input, of three channels. As benchncnn does it: weights
are zeros, all options ncnn's defaults, the input 0.01. Two runs warm; the third lies between two calls of getppid.
NumPy, which takes most of the time of a start, is not imported.
"""

import os
import sys
import tempfile

sys.path.insert(0, sys.argv[1])

import ncnn  # noqa: E402

WARM, WEIGHT_BYTES = 2, 1 << 30  # no network of the benchmark has more; a file without blocks on the disk


def main() -> None:
    side = int(sys.argv[3])
    net = ncnn.Net()
    net.opt.num_threads = 1
    with tempfile.NamedTemporaryFile() as zeros:
        zeros.truncate(WEIGHT_BYTES)
        if net.load_param(sys.argv[2]) or net.load_model(zeros.name):
            sys.exit(f"{sys.argv[2]}: ncnn does not load it")
    image = ncnn.Mat(side, side, 3)
    image.fill(0.01)

    def run() -> None:
        extractor = net.create_extractor()
        for name in net.input_names():
            if extractor.input(name, image):
                sys.exit(f"{name}: ncnn refuses the input")
        for name in net.output_names():
            status, _ = extractor.extract(name)
            if status:
                sys.exit(f"{name}: ncnn ends with {status}")

    for _ in range(WARM):
        run()
    os.getppid()
    run()
    os.getppid()


if __name__ == "__main__":
    main()
