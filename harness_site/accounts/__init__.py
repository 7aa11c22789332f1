"""Sign-in, and who may do what in which workspace."""
