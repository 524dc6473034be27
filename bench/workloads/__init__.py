"""The workloads W1 to W6 and the growth check, each written once for every server."""
