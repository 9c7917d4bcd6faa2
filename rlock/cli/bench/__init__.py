"""What `rlock bench` measures: a user's own masters, from where the user stands."""
