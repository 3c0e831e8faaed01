"""Reports of NCCL RAS, text and JSON."""
