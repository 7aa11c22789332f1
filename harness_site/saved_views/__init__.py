"""Saved views: named filters of a list, shared in the workspace."""
