"""The command line: a lazy group, one module a command, and the screen they print on."""
