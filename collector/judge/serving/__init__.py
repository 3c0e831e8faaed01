"""Of jobs that serve: who holds up what clients wait for."""
