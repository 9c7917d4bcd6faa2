"""What a fleet of masters looks like from outside: its locks, who waits, how the masters are."""
