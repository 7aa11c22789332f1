"""Backend of a client whose sessions are in a database of this process. It needs Django."""
