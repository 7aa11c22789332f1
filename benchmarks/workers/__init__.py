"""Programs that measure in a process of their own and answer line by line."""
