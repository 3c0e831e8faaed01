"""Programs that look at a process for us (py-spy, gdb, strace, pystack), each bounded in time and output."""
