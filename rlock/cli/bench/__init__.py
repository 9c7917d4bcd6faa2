"""`rlock bench`: the speed of a user's own masters, from the machine of the user."""
