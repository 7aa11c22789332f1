"""Session list, search, transcripts, versions, exports and forks."""
