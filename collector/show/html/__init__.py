"""The verdict as a page: values that templates show, drawings as SVG, and one file that needs nothing else."""
