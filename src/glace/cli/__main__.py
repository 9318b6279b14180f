"""`python -m glace.cli` is the `glace` command."""

from glace.cli.main import main

main()
