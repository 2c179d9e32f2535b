"""Networks of an application as periodic jobs: priorities, deadlines, preemption between steps.

Where the next thing goes:

- Analysis: periodic_task.py has the types, response_times.py the bounds, simulator.py the schedules.
"""
