"""The memory of other processes, read from outside without stopping them: bytes, mappings, ELF symbols, a search."""
