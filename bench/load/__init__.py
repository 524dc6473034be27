"""The load generator: connections, request bytes and counting for each protocol."""
