"""What an attacker tries, with real programs and requests."""
