"""What logs say, voter by voter: each module turns one kind of line, over all ranks, into opinions."""
