"""Pages for who works on this site; there only with HARNESS_DEBUG."""
