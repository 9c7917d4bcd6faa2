"""``python -m rlock`` is the command line."""

from .cli.start import main

if __name__ == "__main__":
    main()
