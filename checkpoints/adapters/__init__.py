"""What connects this library with the formats and frameworks of others: one folder each."""
