"""Files and folders: temporary ones, files that are written whole, TOML tables, isolated child processes.

Where the next thing goes:

- Folder for intermediate files: scratch_folder of scratch.py: gone at the end, at a signal too.
- Output that is a file: goes through whole_file.py, which never leaves a partly written file; a picture, .svg or
  .png, through mavcg/drawing/svg_plots.py; SVG written by hand becomes PNG in mavcg/drawing/svg_png.py.
"""
