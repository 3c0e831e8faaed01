"""A large job on simulated nodes: what its agents would answer, and servers that answer it on real sockets."""
