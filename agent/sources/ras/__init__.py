"""NCCL's RAS threads as a source: the client, and the versions that must not be asked."""
