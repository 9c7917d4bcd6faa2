"""``python -m rlock`` is the command line."""

from .program.main import main

if __name__ == "__main__":
    main()
