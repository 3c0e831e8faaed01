"""Finds the ranks of distributed training jobs on this node and looks at them, without disturbing them."""
