"""What a server has been asked and has not answered."""
