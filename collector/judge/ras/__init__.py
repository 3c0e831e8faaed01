"""What NCCL RAS shows: who has launched less than the others, and which processes do not answer it."""
