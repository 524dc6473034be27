"""HTTP headers, JSON and SSE to core values and back; pure."""
