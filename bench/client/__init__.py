"""Our client beside the official Python client, on the same server."""
