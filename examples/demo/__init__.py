"""The parts of the demo: an agent that is killed, whoever restarts it, and whoever tells the story."""
