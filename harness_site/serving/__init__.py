"""The HTTP server in front of Django: limits on connections, request bodies and slow clients."""
