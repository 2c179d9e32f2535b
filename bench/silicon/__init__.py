"""Published silicon figures against the pipeline models: `python -m bench.silicon --clone NAME=FOLDER`."""
