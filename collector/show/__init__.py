"""Show: verdicts and views over HTTP and as text."""
