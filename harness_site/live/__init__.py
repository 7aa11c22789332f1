"""Live updates of open pages over websockets."""
