"""Jobs that are watched from the command line, and diagnoses that are compared."""
