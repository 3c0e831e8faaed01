"""Jobs that move, but slowly: who the others wait for each time."""
