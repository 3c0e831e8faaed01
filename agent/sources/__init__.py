"""The ways to look at a rank, one file each; `all.py` names them."""
