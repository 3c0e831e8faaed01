"""Who said, or shows, that he waited, and in what: the table that stands where no verdict can."""
