"""What logs say, one kind of line per file: each casts votes on who is at fault."""
