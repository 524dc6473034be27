"""The test kit: crashable disk, seeded worlds. Never imported by shipped code."""
