"""The command line: the one place where both sides meet, errors are printed and a process exits."""
