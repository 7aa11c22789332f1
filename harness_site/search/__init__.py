"""Finding text in everything that was said and done: an index beside the store, made without the agents' help."""
