"""The REST API as tools for language models (Model Context Protocol): the same answers, in pages and marked as data."""
