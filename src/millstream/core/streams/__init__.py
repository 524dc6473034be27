"""Streams: what they hold, what may happen to them, and what follows."""
