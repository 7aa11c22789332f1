"""Everything that is measured: this library, its peers and bare statements, behind one interface."""
