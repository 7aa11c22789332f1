"""Contenders of the benchmarks: this library, its peers and plain SQL, behind one interface."""
