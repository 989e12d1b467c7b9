"""Coding agents and assistants: how each of them is told of an MCP server."""
