"""Evidence of jobs, simulated or written by hand, and the verdict on it by the real judge."""
