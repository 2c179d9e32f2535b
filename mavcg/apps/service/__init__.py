"""Networks of an application as periodic jobs: priorities, deadlines, preemption between steps.

Where the next thing goes:

- Key of app.toml about periods: periodic_keys.py. Times of a network's sections on a board: modelled.py.
- Analysis: periodic_task.py has the types, response_times.py the bounds, simulator.py the schedules; service_report.py
  and gantt.py show them.
"""
