"""The layer in front of both services' routes: addresses, TLS, tokens, limits, errors, audit."""
