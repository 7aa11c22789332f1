"""Groups of agents that save at the same time in one process."""
