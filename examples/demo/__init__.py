"""Parts of the demo: an agent that gets killed, its supervisor, and the narrator of the events."""
