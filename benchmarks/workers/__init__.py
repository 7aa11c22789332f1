"""Programs that measure inside a process of their own and answer line by line."""
