"""What the threads of a rank wait for, by what its Python has in memory: keys, queues, futures, threads, tasks."""
