"""Filling a PostgreSQL database with as many sessions as an installation has after years, to measure and to try it."""
