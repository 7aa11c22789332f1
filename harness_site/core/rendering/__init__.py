"""HTML from untrusted text of agents, tools and customers."""
