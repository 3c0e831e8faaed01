"""Simulated jobs over real topologies, with faults put in and the truth known.

program: what a rank does, as operations on groups, work on the host, kernels and waits. style, layouts, schedules: how
a job is written, topologies, and a healthy program for every rank. faults, wrong_calls: what goes wrong, put into the
programs. engine: runs them; run: when each operation was issued, started, completed; fitting: which calls can be one.
recorder, dumpfile: what a flight recorder keeps of that at any moment, and as a file in torch's shapes. looks: what
looks show of the job while it runs, or hangs. truth, evidence: who is at fault, and whether what the records hold
suffices to say so. scenario: all of this drawn from one number.
"""
