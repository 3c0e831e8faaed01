"""What is usual, where no rule tells who is wrong: one file for each, and a case for each that needs it.

A tie-breaker weighs what others did, or the same rank before; it proves nothing. `test_switched_off.py` takes each away
and shows the case that then fails. One that no case needs is to go.
"""
