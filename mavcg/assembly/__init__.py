"""Assembly outside of the passes: read, run in an emulator and compared, estimated, tuned, drawn."""
