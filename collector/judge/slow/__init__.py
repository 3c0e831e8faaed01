"""Jobs that move, but slowly, or that one rank holds up: who the others wait for, each time or for once."""
