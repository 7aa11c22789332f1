"""`harness mcp-guard`: a proxy before any MCP server that logs, replays and gates its tool calls."""
