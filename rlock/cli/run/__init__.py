"""What `rlock run` needs: its child process, and the events that it reports."""
