"""The rules over marks, for every source alike: calls that differ, ranks that are behind, the walk to the root."""
