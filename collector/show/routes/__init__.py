"""The collector's HTTP routes, one file per resource."""
