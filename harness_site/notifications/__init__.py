"""Notifications about pending calls by e-mail and webhook, through an outbox."""
