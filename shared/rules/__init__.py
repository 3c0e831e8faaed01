"""Rules that a site adds to ours: read, checked, and bounded in what they may cost."""
