"""Millstream: durable event streams behind a URL, each event exactly once."""

__version__ = "0.1.0"

__all__ = ["__version__"]
