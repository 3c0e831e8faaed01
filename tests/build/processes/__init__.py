"""Real processes and trees of /proc, and those who start and ask them."""
