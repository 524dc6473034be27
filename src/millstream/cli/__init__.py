"""The `millstream` command: one module per verb."""
