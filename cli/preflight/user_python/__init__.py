"""What runs in the job's own Python: the standard library, and its PyTorch."""
