"""Commands about what is seen unasked: incidents, silences, what was found before, and watching in the foreground."""
