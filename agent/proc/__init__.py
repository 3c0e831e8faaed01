"""What Linux reports of processes and of the node: one file per kernel interface, no opinion."""
