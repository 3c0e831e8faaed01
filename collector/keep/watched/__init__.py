"""What is kept of watched jobs: incidents, who was told of them, silences, and what was learnt."""
