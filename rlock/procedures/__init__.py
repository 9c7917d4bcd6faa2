"""The procedures: generators that yield a request and receive its answer. No I/O; a driver performs them."""
