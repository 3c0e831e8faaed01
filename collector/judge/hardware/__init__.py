"""What kernel logs, GPUs and descriptors add to a finding."""
