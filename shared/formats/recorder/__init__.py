"""Dumps of PyTorch's flight recorder, pickle and JSON, of every version."""
