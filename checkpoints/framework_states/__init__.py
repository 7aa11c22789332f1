"""States of foreign frameworks: opaque, stored once by content, beside the readable transcript of a session."""
