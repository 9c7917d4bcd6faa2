"""The entry point. It imports nothing but `signal` before Ctrl-C is dealt with."""

import signal


def main() -> None:
    """Run the command line. Ctrl-C during the imports would otherwise end with a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .main import main as run

    run()
