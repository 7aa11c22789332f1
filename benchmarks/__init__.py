"""What durable sessions cost: this library, its peers and bare statements, measured side by side in one run."""
