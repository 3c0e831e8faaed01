"""Simulated jobs over real topologies, with faults put in and the truth known.

program   what a rank does: operations on groups, work on the host, kernels, waits
layouts   topologies: which groups there are, and a healthy program for every rank
faults    what goes wrong, put into the programs
engine    runs the programs: when was each operation issued, started, completed, and who is stuck where
recorder  what a flight recorder keeps of that at any moment, as a `Trace`
dumpfile  the same as a file in torch's shapes
truth     who is at fault, and do the records suffice to say so
scenario  all of this drawn from one number
"""
