"""What a process waits for in the kernel, beyond its own memory, and where that leads on this node."""
