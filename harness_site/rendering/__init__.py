"""From what agents, tools and customers wrote to HTML. All of it is hostile, and all of it passes through here."""
