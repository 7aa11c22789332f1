"""Review queue of pending calls, and the decision card of one call."""
