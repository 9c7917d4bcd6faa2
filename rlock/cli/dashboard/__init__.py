"""The page of `rlock dashboard`: what is seen, how it is answered, and the server that carries it."""
