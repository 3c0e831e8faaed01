"""Tests of the command line: in process where that is enough, else as real processes on real ranks."""
