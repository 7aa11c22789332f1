"""Audit trail pages, and audit events for reading sessions."""
