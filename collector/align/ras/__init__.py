"""NCCL RAS reports: communicators, and whose process each rank's is."""
