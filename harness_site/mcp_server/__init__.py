"""MCP server: tools by which an assistant reads sessions and decides about calls. Each is a request to the HTTP API."""
