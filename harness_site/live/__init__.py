"""How an open page learns that something changed."""
