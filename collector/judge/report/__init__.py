"""A fault in words: findings, evidence, sentences and next steps."""
