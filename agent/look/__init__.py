"""Look: one rank or the whole node, source by source, each under its own deadline."""
