"""The asyncio driver: waiting by tasks of one event loop, and no thread."""
