"""What needs a person now, and the card on which a person decides."""
