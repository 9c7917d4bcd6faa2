"""The program: the command line, embedded masters, the demonstration."""
