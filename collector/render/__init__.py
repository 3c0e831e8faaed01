"""Show: a verdict or a merged stack as text, Markdown or a file for other viewers. Pure: values in, text out."""
