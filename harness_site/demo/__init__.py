"""The parts of `manage.py demo`: an agent that is killed, whoever restarts it, and whoever tells the story."""
