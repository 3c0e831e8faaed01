"""CPython in the memory of other processes, read without stopping them: threads, frames, and what these hold."""
