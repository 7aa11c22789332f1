"""Who did what: the pages of the audit trail, and what reading adds to it."""
