"""Backend of a client whose sessions are on a Harness server: the same classes and errors, without a database. It needs
`httpx`."""
