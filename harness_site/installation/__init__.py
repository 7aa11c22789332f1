"""State of this installation: first steps, connecting agents, and the system page."""
