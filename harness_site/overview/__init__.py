"""Overview page: current counts, sums of the last days, costs."""
