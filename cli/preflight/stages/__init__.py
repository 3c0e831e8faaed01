"""The stages of a preflight, each on the board that the ones before have left."""
