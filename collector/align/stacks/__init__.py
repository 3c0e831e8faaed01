"""What each rank is doing, by the frames of its stacks and the state of its process."""
