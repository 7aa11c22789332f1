"""Views of lists that the team has kept: a name for a set of filters."""
