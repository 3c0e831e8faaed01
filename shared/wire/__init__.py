"""What agents answer: the values that travel between the two sides."""
