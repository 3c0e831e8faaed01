"""Taking connections in."""
