"""What runs, what waits, what failed and what it cost: one page to read in ten seconds."""
