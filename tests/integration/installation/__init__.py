"""Tests of the first steps, the system page and connecting agents."""
