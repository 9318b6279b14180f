"""The command line: one function per verb, from arguments to a library call to a message."""
