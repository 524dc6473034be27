"""Runs the core machine on the log: one writer, group commit, live tails."""
