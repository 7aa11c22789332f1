"""The HTTP API: the verbs of the library and the reads of the pages, for programs in any language."""
