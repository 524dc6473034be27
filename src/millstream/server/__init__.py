"""The HTTP edge and the assembly of a running server."""
