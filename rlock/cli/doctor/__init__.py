"""What `rlock doctor` asks of each master, and what it says to that."""
