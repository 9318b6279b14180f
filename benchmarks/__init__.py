"""How fast and how large, by question: each module is one command, see README.md."""
