"""Seals: keyed digests of stored rows, so that a row that this library did not write, or not there, is refused."""
