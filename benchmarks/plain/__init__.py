"""A small Django app that keeps transcripts the way one would by hand: the plain ORM and the bare statements use it."""
