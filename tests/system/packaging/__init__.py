"""Tests on what users install: the wheel and the editable install, not the tree."""
