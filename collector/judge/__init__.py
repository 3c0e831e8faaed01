"""Judge: observations in, a diagnosis out. Pure. `verdict.py` has the steps."""
