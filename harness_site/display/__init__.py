"""Time zone and theme of the pages, as the reader chooses."""
