"""Full-text search over messages, calls, decisions and sessions, with an index built independently of the agents."""
