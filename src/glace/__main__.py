"""`python -m glace` is the `glace` command."""

from glace.cli.main import main

main()
