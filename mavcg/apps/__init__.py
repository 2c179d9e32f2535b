"""Applications of several CNNs in one memory, with processing by parts.

Source: Minakova, "System-level design for efficient execution of CNNs at the edge", 2022, chapter 6.

Where the next thing goes:

- Key of app.toml: application_file.py, checked for a library in buildable.py; for both verbs.
- Schedules, buffers and throughput by the paper's model, for `mavcg app plan`: application.py has its types, models.py
  makes them of networks, plan.py finds the front.
- Memory and pipelines of the library, for `mavcg app build`: library_plan.py, stage_plan.py; its code: library.py;
  figures of its documents: library_documents.py, library_buffers.py.
"""
