"""Pages for developers of this site, available only with HARNESS_DEBUG."""
