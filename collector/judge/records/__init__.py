"""What flight records prove: mismatches, who waits for whom, and the root of the waiting."""
