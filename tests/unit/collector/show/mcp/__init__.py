"""The REST API as tools for language models."""
