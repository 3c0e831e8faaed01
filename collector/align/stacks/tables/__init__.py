"""What a frame, a system call or a kernel function says about where a process is: rows, and who matches them."""
