"""The pages that people look at: jobs, incidents, diagnoses and preflights, each list with a form to search it."""
