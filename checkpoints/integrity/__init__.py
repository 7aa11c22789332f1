"""Verification of whole sessions, and the seals of rows from before sealing."""
