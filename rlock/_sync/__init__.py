"""The blocking driver: sockets, threads and nothing of the algorithm."""
