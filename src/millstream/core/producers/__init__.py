"""Producers: the only copy of the exactly-once rule."""
