"""Benchmarks of durable sessions: this library, its peers and plain SQL, measured side by side in one run."""
