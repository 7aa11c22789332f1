"""Website: everything that a browser reaches. It imports `checkpoints`, never the reverse."""
