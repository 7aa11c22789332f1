"""Telling people, and programs, that calls wait for a person: e-mail and webhooks, through an outbox."""
