"""A fault in words: headline, findings with summary and evidence, next steps."""
