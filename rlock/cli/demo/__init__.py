"""`rlock demo`: workers raise a counter on masters that fail, and a checker reads their journals."""
