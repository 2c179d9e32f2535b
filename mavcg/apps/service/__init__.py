"""Networks of an application as periodic jobs: priorities, deadlines, preemption between steps.

Where the next thing goes:

- Key of app.toml about periods: periodic_keys.py, in a library's note: periods_note.py. Times of a network's sections:
  on a board modelled.py, on this machine measured.py.
- Analysis: periodic_task.py has the types, response_times.py the bounds, simulator.py the schedules; service_report.py
  and gantt.py show them.
- The scheduler of a library is runtime/csrc/service.c; LoadedApplication.serve calls it.
"""
