"""Tests on real jobs: each starts processes that really hang, and asks `unhang` about them."""
