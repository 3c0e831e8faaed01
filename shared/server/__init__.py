"""What stands before the routes of both services: addresses, TLS, tokens, bounds, errors, audit."""
