"""Accounts, sign-in, memberships, roles and API tokens."""
