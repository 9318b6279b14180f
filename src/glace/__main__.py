"""`python -m glace` is the `glace` command."""

from glace.cli.main import main

if __name__ == "__main__":  # processes of `glace embed` import this module, too
    main()
