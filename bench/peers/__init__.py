"""The servers under test: how each is installed, started, watched and stopped."""
