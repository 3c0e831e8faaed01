"""A verdict or a merged stack as text or Markdown. Pure: values in, text out."""
