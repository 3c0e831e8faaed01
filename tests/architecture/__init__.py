"""Tests on the shape of the sources: who may import whom, and that the documents tell the truth about the tree."""
